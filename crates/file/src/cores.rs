//! Cores that this process may use.

use std::sync::OnceLock;

/// Cores that this process may use. The standard library would read files of control groups to find out, which takes
/// longer than a small call.
pub(crate) fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| {
        let allowed = rustix::thread::sched_getaffinity(None);
        allowed.map_or(1, |cores| (cores.count() as usize).max(1))
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn there_is_a_core() {
        assert!(super::cores() >= 1);
    }
}
