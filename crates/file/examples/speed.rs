//! scratch
#![allow(clippy::unwrap_used, missing_docs, clippy::pedantic)]
use std::sync::Arc;
use std::time::Instant;
use striate_comm::{Comm, Threads};
use striate_datatype::Datatype;
use striate_file::*;
use striate_store::AlignedBuffer;

fn work(comm: Arc<dyn Comm>) {
    let args: Vec<String> = std::env::args().collect();
    let dir = args.get(1).map(String::as_str).unwrap_or("/dev/shm");
    let hints: Hints = args.get(2).map(String::as_str).unwrap_or("").parse().unwrap();
    let blocks: Vec<u64> = args.get(3).map_or(vec![64, 512, 4096, 65536, 1 << 20], |s| {
        s.split(',').map(|x| x.parse().unwrap()).collect()
    });
    let reps: usize = args.get(4).map_or(9, |s| s.parse().unwrap());
    let independent = args.get(5).is_some();
    let total: u64 = 64 << 20;
    let n = comm.size() as u64;
    let r = comm.rank() as u64;
    let mut from = AlignedBuffer::new((total / n) as usize);
    let mut to = AlignedBuffer::new((total / n) as usize);
    for block in blocks {
        let count = total / n / block;
        for i in 0..count {
            let o = (i * block) as usize;
            for (j, b) in from[o..o + block as usize].iter_mut().enumerate() {
                *b = (((i * n + r) * block) as usize + j).wrapping_mul(37) as u8;
            }
        }
        let ty = Datatype::hvector(count, 1, (n * block) as i64, &Datatype::bytes(block).unwrap())
            .unwrap();
        let ty = Datatype::resized(&ty, 0, (n * block * count) as i64).unwrap();
        let path = format!("{dir}/striate-speed");
        let (mut w, mut rd) = (vec![], vec![]);
        let mut method = (None, None);
        for _ in 0..reps {
            if r == 0 {
                let _ = std::fs::remove_file(&path);
            }
            comm.barrier().unwrap();
            let mut f =
                File::open(&comm, &path, Mode::CREATE | Mode::READ | Mode::WRITE, &hints).unwrap();
            f.set_view(View::new(r * block, &Datatype::bytes(1).unwrap(), &ty).unwrap()).unwrap();
            comm.barrier().unwrap();
            let t = Instant::now();
            if independent {
                f.write_at(0, &from[..]).unwrap();
            } else {
                f.write_at_all(0, &from[..]).unwrap();
            }
            comm.barrier().unwrap();
            w.push(total as f64 / 1048576.0 / t.elapsed().as_secs_f64());
            method.0 = f.last_call().map(|c| c.method.name());
            to.fill(0);
            comm.barrier().unwrap();
            let t = Instant::now();
            if independent {
                f.read_at(0, &mut to[..]).unwrap();
            } else {
                f.read_at_all(0, &mut to[..]).unwrap();
            }
            comm.barrier().unwrap();
            rd.push(total as f64 / 1048576.0 / t.elapsed().as_secs_f64());
            method.1 = f.last_call().map(|c| c.method.name());
            assert!(to[..] == from[..], "wrong data");
            f.close().unwrap();
        }
        w.sort_by(f64::total_cmp);
        rd.sort_by(f64::total_cmp);
        if r == 0 {
            println!(
                "{block:8} write {:7.0} (best {:7.0}) read {:7.0} (best {:7.0}) {method:?}",
                w[reps / 2],
                w[reps - 1],
                rd[reps / 2],
                rd[reps - 1]
            );
        }
    }
}

fn main() {
    #[cfg(feature = "mpi")]
    if striate_comm::mpi::launched() {
        striate_comm::mpi::run(|comm| {
            work(comm);
            Ok::<(), striate_comm::CommError>(())
        })
        .unwrap();
        return;
    }
    let n = std::env::var("RANKS").map_or(4, |s| s.parse().unwrap());
    for r in Threads::new(n).run(|c| {
        work(c);
        Ok::<(), striate_comm::CommError>(())
    }) {
        r.unwrap();
    }
}
