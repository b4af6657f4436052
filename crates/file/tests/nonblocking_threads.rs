//! Nonblocking collective calls of ranks that are threads.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod nonblocking;
mod support;

use std::time::Duration;

use striate_comm::Threads;
use support::Watchdog;

#[test]
fn all_checks_hold() {
    let watchdog = Watchdog::new(Duration::from_secs(240), "nonblocking calls");
    let jobs = [
        Threads::new(4),
        Threads::on_nodes(&[0, 0, 1, 1]),
        Threads::on_nodes(&[0, 1, 2]),
        Threads::new(3).without_node_memory(),
        Threads::new(1),
    ];
    for (number, job) in jobs.iter().enumerate() {
        for (name, check) in nonblocking::CHECKS {
            watchdog.at(format!("job {number}: {name}"));
            let directory = tempfile::tempdir().unwrap();
            job.try_run(|comm| check(&comm, directory.path())).unwrap();
        }
    }
}
