//! Random sequences of collectives, compared with a model that knows what every rank gave.

use std::sync::Arc;

use striate_comm::{Comm, CommError, Reduction};

/// A generator of numbers that are random enough (splitmix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

pub(crate) fn programs(comm: &Arc<dyn Comm>) -> Result<(), CommError> {
    let everybody: Vec<usize> = (0..comm.size()).collect();
    for seed in 1..=10 {
        let mut random = Random::new(seed);
        for _ in 0..30 {
            if random.below(6) == 0 {
                split(comm, &mut random)?;
            } else {
                step(comm, &everybody, random.next())?;
            }
        }
    }
    Ok(())
}

/// What a rank of the world gives to another in a step; often nothing, sometimes much.
fn given(step: u64, from: usize, to: usize) -> Vec<u8> {
    let mut random = Random::new(step ^ ((from * 64 + to) as u64) << 32);
    let longest = [0, 1, 100, 20_000][random.below(4)];
    let len = random.below(longest + 1);
    (0..len).map(|_| random.next() as u8).collect()
}

/// One collective of a communicator whose ranks are `members` of the world.
fn step(comm: &Arc<dyn Comm>, members: &[usize], step: u64) -> Result<(), CommError> {
    let mut random = Random::new(step);
    let (rank, size) = (comm.rank(), comm.size());
    let (root, shift) = (random.below(size), random.below(size));
    let mine = |to: usize| given(step, members[rank], members[to]);
    let theirs = |from: usize, to: usize| given(step, members[from], members[to]);
    match random.below(7) {
        0 => comm.barrier()?,
        1 => {
            let mut bytes = mine(root);
            comm.broadcast(root, &mut bytes)?;
            assert!(bytes == theirs(root, root), "broadcast in step {step}");
        }
        2 => {
            let all = comm.gather(root, &mine(root))?;
            let expected = if rank == root { size } else { 0 };
            let expected = (0..expected).map(|from| theirs(from, root));
            assert!(expected.eq(all), "gather in step {step}");
        }
        3 => {
            let all = comm.allgather(&mine(root))?;
            assert!((0..size).map(|from| theirs(from, root)).eq(all), "allgather in step {step}");
        }
        4 => {
            let all = comm.alltoall((0..size).map(mine).collect())?;
            assert!((0..size).map(|from| theirs(from, rank)).eq(all), "alltoall in step {step}");
        }
        5 => {
            let value = |from: usize| Random::new(step ^ members[from] as u64).next();
            let all: Vec<u64> = (0..size).map(value).collect();
            let (with, expected) = match random.below(4) {
                0 => (Reduction::Min, all.iter().copied().min()),
                1 => (Reduction::Max, all.iter().copied().max()),
                2 => (Reduction::Sum, all.iter().copied().reduce(u64::wrapping_add)),
                _ => (Reduction::And, all.iter().copied().reduce(|a, b| a & b)),
            };
            let mut values = [value(rank)];
            comm.allreduce_u64(with, &mut values)?;
            assert_eq!(Some(values[0]), expected, "{with:?} in step {step}");
        }
        _ => {
            let (to, from) = ((rank + shift) % size, (rank + size - shift) % size);
            let mut requests = vec![comm.send(to, 77, mine(to))?, comm.receive(from, 77, 30_000)?];
            let (first, one) = comm.wait_any(&mut requests)?;
            let (_, two) = comm.wait_any(&mut requests)?;
            let message = if first == 1 { one } else { two };
            assert!(message == theirs(from, rank), "message in step {step}");
        }
    }
    Ok(())
}

/// Some collectives of random groups.
fn split(comm: &Arc<dyn Comm>, random: &mut Random) -> Result<(), CommError> {
    let wishes: Vec<(Option<u64>, u64)> = (0..comm.size())
        .map(|_| (random.next().checked_rem(4).filter(|color| *color != 3), random.next() % 3))
        .collect();
    let steps: Vec<u64> = (0..random.below(4)).map(|_| random.next()).collect();
    let (color, key) = wishes[comm.rank()];
    let part = comm.split(color, key)?;
    assert_eq!(part.is_some(), color.is_some());
    let mut members: Vec<usize> =
        (0..comm.size()).filter(|rank| wishes[*rank].0 == color).collect();
    members.sort_by_key(|rank| wishes[*rank].1);
    if let Some(part) = part {
        assert_eq!(part.size(), members.len());
        assert_eq!(members[part.rank()], comm.rank());
        steps.iter().try_for_each(|number| step(&part, &members, *number))?;
    }
    Ok(())
}
