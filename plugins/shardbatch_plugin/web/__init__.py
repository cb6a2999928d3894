# SPDX-License-Identifier: Apache-2.0
"""What the API server serves: loaded there only, with the first request."""
