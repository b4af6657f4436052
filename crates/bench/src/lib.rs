//! Workloads, measurements and statistics.
