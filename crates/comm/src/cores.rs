//! How many cores this process may use, and how many of them are one rank's.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZero;
use std::sync::OnceLock;
use std::thread;

use rustix::thread::{CpuSet, sched_getaffinity};

use crate::{Comm, CommError};

/// Number of cores that this process may use, at least 1.
///
/// It is asked for once, from the scheduler's affinity mask: the standard library also reads files
/// of control groups, which takes longer than a small I/O request.
pub fn available_cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| {
        let allowed = sched_getaffinity(None);
        allowed.map_or(1, |cores| (cores.count() as usize).max(1))
    })
}

/// Number of cores that are this rank's, at least 1: those that it may use, divided among the ranks
/// of its node that may use the same ones. Ranks that are bound to cores of their own divide
/// nothing. Limits of control groups count. Collective.
pub fn cores_of_rank(comm: &dyn Comm) -> Result<usize, CommError> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let sets = comm.allgather(&allowed_cores().to_le_bytes())?;
    Ok(share(cores, comm.rank(), comm.nodes(), &sets))
}

/// A number that tells sets of cores apart. Ranks whose sets differ are taken to share none: a
/// launcher that binds ranks binds them to different cores, or all of a socket to the same.
fn allowed_cores() -> u64 {
    let Ok(allowed) = sched_getaffinity(None) else { return 0 };
    let mut hasher = DefaultHasher::new();
    (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).for_each(|core| {
        core.hash(&mut hasher);
    });
    hasher.finish()
}

fn share<S: PartialEq>(cores: usize, rank: usize, nodes: &[usize], sets: &[S]) -> usize {
    let own = (nodes.get(rank), sets.get(rank));
    let all = nodes.iter().zip(sets);
    let sharing = all.filter(|&(node, set)| (Some(node), Some(set)) == own).count();
    (cores / sharing.max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use rustix::thread::sched_setaffinity;

    use super::*;
    use crate::Threads;

    #[test]
    fn there_is_at_least_one_core() {
        assert!(available_cores() >= 1);
    }

    #[test]
    fn ranks_with_the_same_cores_share_them() {
        // Two nodes: on the first two ranks with cores of their own, on the second four ranks, two
        // on each socket.
        let nodes = [0, 0, 1, 1, 1, 1];
        let sets = ["0-3", "4-7", "0-7", "8-15", "0-7", "8-15"];
        for (rank, cores, expected) in
            [(0, 4, 4), (1, 4, 4), (2, 8, 4), (5, 8, 4), (3, 1, 1), (3, 5, 2)]
        {
            assert_eq!(share(cores, rank, &nodes, &sets), expected, "rank {rank}, {cores} cores");
        }
    }

    #[test]
    fn bound_ranks_have_their_core() {
        let cores = thread::available_parallelism().unwrap().get();
        Threads::on_nodes(&[0, 1, 1, 1])
            .try_run(|comm| {
                if comm.rank() == 3 {
                    let allowed = sched_getaffinity(None).unwrap();
                    let first = (0..CpuSet::MAX_CPU).find(|&core| allowed.is_set(core)).unwrap();
                    let mut one = CpuSet::new();
                    one.set(first);
                    sched_setaffinity(None, &one).unwrap();
                }
                let expected = match comm.rank() {
                    0 => cores,
                    1 | 2 if cores > 1 => cores / 2,
                    _ => 1,
                };
                assert_eq!(cores_of_rank(comm.as_ref())?, expected, "rank {}", comm.rank());
                Ok::<_, CommError>(())
            })
            .unwrap();
    }
}
