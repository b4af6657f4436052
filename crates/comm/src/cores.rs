//! How many cores this process may use.

use std::sync::OnceLock;

/// Number of cores that this process may use, at least 1.
///
/// It is asked for once, from the scheduler's affinity mask: the standard library also reads files
/// of control groups, which takes longer than a small I/O request.
pub fn available_cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| {
        let allowed = rustix::thread::sched_getaffinity(None);
        allowed.map_or(1, |cores| (cores.count() as usize).max(1))
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn there_is_at_least_one_core() {
        assert!(super::available_cores() >= 1);
    }
}
