# SPDX-License-Identifier: Apache-2.0
"""What the tasks of a group share: the application at hand, the request of its run, and who else lives."""
