# SPDX-License-Identifier: Apache-2.0
"""The one place where Airflow's connections become a source, a lease store and a staging area.

The specifications here are small values: importing and comparing them costs nothing, their text is stable and holds no
secret. Only ``open`` looks a connection up and imports a vendor's library.
"""
