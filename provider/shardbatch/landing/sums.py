# SPDX-License-Identifier: Apache-2.0
def sum_markers(files, path, **kwargs):
    return None
