# SPDX-License-Identifier: Apache-2.0
"""What every source on AWS needs: calls of a client, its pace and patience, errors in our words, whole bodies."""
