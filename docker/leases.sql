-- Leases stand in a database of their own: Airflow's metadata database is Airflow's alone.
CREATE DATABASE leases OWNER airflow;
