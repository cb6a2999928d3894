# SPDX-License-Identifier: Apache-2.0
"""What a person does to the rows of an application: each verb is a use-case over the ports, previewed and noted."""
