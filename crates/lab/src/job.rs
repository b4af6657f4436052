//! Jobs of MPI ranks on the nodes of a lab.
//!
//! The launcher runs in the first of the nodes and reaches the others by a script that enters them,
//! where it would use `ssh`. It and the ranks are told to use the network of the lab.

use std::path::Path;

use crate::node::{NETWORK, enter_path};

/// An implementation of MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mpi {
    /// Open MPI 4.
    OpenMpi,
    /// MPICH, with its launcher Hydra.
    Mpich,
}

/// How many ranks run on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RanksOfNode {
    /// The number of the node, from 0.
    pub node: usize,
    /// Its ranks.
    pub ranks: usize,
}

impl RanksOfNode {
    /// Distributes `ranks` over nodes that take so many each, from the first node on and again and
    /// again, as far as there are nodes: with `[2, 1]`, 7 ranks on 4 nodes are 3, 1, 2 and 1.
    pub fn repeat(ranks: usize, of_each: &[usize], nodes: usize) -> Vec<Self> {
        let mut placed = vec![0; nodes];
        let mut left = ranks;
        while left > 0 && nodes > 0 && of_each.iter().any(|ranks| *ranks > 0) {
            for (node, placed) in placed.iter_mut().enumerate() {
                let takes = of_each[node % of_each.len()].min(left);
                *placed += takes;
                left -= takes;
            }
        }
        let placed = placed.into_iter().enumerate().filter(|(_, ranks)| *ranks > 0);
        placed.map(|(node, ranks)| Self { node, ranks }).collect()
    }
}

impl Mpi {
    /// The launcher's words that set a variable of the ranks. The launcher itself does not get it,
    /// which matters for libraries that are preloaded.
    pub fn variable(self, name: &str, value: &str) -> Vec<String> {
        match self {
            Self::OpenMpi => vec!["-x".to_owned(), format!("{name}={value}")],
            Self::Mpich => ["-env", name, value].map(str::to_owned).into(),
        }
    }

    /// The names of its launcher, the one that can be confused with another MPI's last.
    pub(crate) const fn launchers(self) -> [&'static str; 2] {
        match self {
            Self::OpenMpi => ["mpiexec.openmpi", "mpiexec"],
            Self::Mpich => ["mpiexec.mpich", "mpiexec"],
        }
    }

    /// Words after the launcher's name, before those about variables, program and arguments.
    pub(crate) fn words(self, directory: &Path, placed: &[(&str, usize)]) -> Vec<String> {
        let enter = enter_path(directory).display().to_string();
        let hosts: Vec<String> = placed.iter().map(|(name, n)| format!("{name}:{n}")).collect();
        let ranks: usize = placed.iter().map(|(_, ranks)| ranks).sum();
        let words = match self {
            // What other networks and devices there are must not be tried: they wait long.
            Self::OpenMpi => format!(
                "--allow-run-as-root --oversubscribe --bind-to none \
                 --mca plm_rsh_agent {enter} --mca oob_tcp_if_include {NETWORK} \
                 --mca btl_tcp_if_include {NETWORK} --mca btl self,vader,tcp --mca pml ob1 \
                 --mca mpi_yield_when_idle 1 --host {}",
                hosts.join(",")
            ),
            Self::Mpich => format!(
                "-launcher ssh -launcher-exec {enter} -iface eth0 -hosts {}",
                hosts.join(",")
            ),
        };
        let words = words.split_whitespace().map(str::to_owned);
        words.chain(["-n".to_owned(), ranks.to_string()]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::RanksOfNode;

    #[test]
    fn ranks_go_round_the_nodes() {
        let of = |ranks, of_each: &[usize], nodes| -> Vec<(usize, usize)> {
            let placed = RanksOfNode::repeat(ranks, of_each, nodes);
            placed.iter().map(|placed| (placed.node, placed.ranks)).collect()
        };
        assert_eq!(of(4, &[1], 4), [(0, 1), (1, 1), (2, 1), (3, 1)]);
        assert_eq!(of(4, &[2], 4), [(0, 2), (1, 2)]);
        assert_eq!(of(4, &[2, 1, 1], 3), [(0, 2), (1, 1), (2, 1)]);
        assert_eq!(of(7, &[2, 1], 4), [(0, 3), (1, 1), (2, 2), (3, 1)]);
        assert_eq!(of(3, &[0], 4), []);
        assert_eq!(of(3, &[1], 0), []);
    }
}
