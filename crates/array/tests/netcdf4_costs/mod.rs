//! What calls on netCDF-4 files cost: collectives counted at the communicator, and stripes at the
//! servers.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use striate_array::format::StorageOptions;
use striate_array::{ArrayError, Dataset, Format, OpenMode, Options, Slab, Type};
use striate_comm::task::Tasks;
use striate_comm::{Comm, CommError, NodeMemory, Reduction, Request, Threads};
use striate_server::Embedded;

use super::chunked;

/// A communicator that counts the collective calls and messages of a rank, of its groups as well.
#[derive(Debug)]
struct CountingComm {
    inner: Arc<dyn Comm>,
    collectives: Arc<AtomicU64>,
    messages: Arc<AtomicU64>,
}

impl CountingComm {
    fn new(inner: Arc<dyn Comm>) -> Self {
        Self { inner, collectives: Arc::default(), messages: Arc::default() }
    }

    fn collective(&self) -> &dyn Comm {
        self.collectives.fetch_add(1, Ordering::Relaxed);
        self.inner.as_ref()
    }

    fn message(&self) -> &dyn Comm {
        self.messages.fetch_add(1, Ordering::Relaxed);
        self.inner.as_ref()
    }
}

impl Comm for CountingComm {
    fn rank(&self) -> usize {
        self.inner.rank()
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn nodes(&self) -> &[usize] {
        self.inner.nodes()
    }

    fn split(&self, color: Option<u64>, key: u64) -> Result<Option<Arc<dyn Comm>>, CommError> {
        let group = self.collective().split(color, key)?;
        Ok(group.map(|inner| {
            let (collectives, messages) = (self.collectives.clone(), self.messages.clone());
            Arc::new(Self { inner, collectives, messages }) as Arc<dyn Comm>
        }))
    }

    fn barrier(&self) -> Result<(), CommError> {
        self.collective().barrier()
    }

    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<(), CommError> {
        self.collective().broadcast(root, bytes)
    }

    fn gather(&self, root: usize, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        self.collective().gather(root, bytes)
    }

    fn allgather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        self.collective().allgather(bytes)
    }

    fn alltoall(&self, parts: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, CommError> {
        self.collective().alltoall(parts)
    }

    fn allreduce_u64(&self, with: Reduction, values: &mut [u64]) -> Result<(), CommError> {
        self.collective().allreduce_u64(with, values)
    }

    fn allreduce_i64(&self, with: Reduction, values: &mut [i64]) -> Result<(), CommError> {
        self.collective().allreduce_i64(with, values)
    }

    fn allreduce_f64(&self, with: Reduction, values: &mut [f64]) -> Result<(), CommError> {
        self.collective().allreduce_f64(with, values)
    }

    fn send(&self, to: usize, tag: u32, message: Vec<u8>) -> Result<Request, CommError> {
        self.message().send(to, tag, message)
    }

    fn receive(&self, from: usize, tag: u32, capacity: usize) -> Result<Request, CommError> {
        self.message().receive(from, tag, capacity)
    }

    fn wait(&self, request: Request) -> Result<Vec<u8>, CommError> {
        self.inner.wait(request)
    }

    fn wait_any(&self, requests: &mut Vec<Request>) -> Result<(usize, Vec<u8>), CommError> {
        self.inner.wait_any(requests)
    }

    fn test_any(&self, requests: &mut Vec<Request>) -> Result<Option<(usize, Vec<u8>)>, CommError> {
        self.inner.test_any(requests)
    }

    fn node_memory_with_spare(
        &self,
        len: usize,
        spare: usize,
    ) -> Result<Option<NodeMemory>, CommError> {
        self.collective().node_memory_with_spare(len, spare)
    }

    fn tasks(&self) -> &Arc<Tasks> {
        self.inner.tasks()
    }

    fn health(&self) -> Result<(), CommError> {
        self.inner.health()
    }
}

/// Collectives and messages of all ranks together: to define so many variables and to close the
/// file, and to open it and look for the last variable.
fn costs_of_variables(path: &Path, variables: u64) -> [[u64; 2]; 2] {
    let all = Threads::new(4).try_run(|comm| {
        let counting = Arc::new(CountingComm::new(comm));
        let comm: Arc<dyn Comm> = counting.clone();
        let counts = || {
            [&counting.collectives, &counting.messages]
                .map(|count| count.swap(0, Ordering::Relaxed))
        };
        let options = Options::default();
        let mut definition = Dataset::create(&comm, path, Format::Netcdf4, &options)?;
        let [y, x] = [definition.dimension("y", 3)?, definition.dimension("x", 2)?];
        let time = definition.unlimited("time")?;
        for number in 0..variables {
            let name = format!("variable_{number}");
            let id = match number % 3 {
                0 => definition.variable(&name, Type::Float, &[y, x])?,
                1 => definition.variable(&name, Type::Double, &[time, x])?,
                _ => {
                    let id = definition.variable(&name, Type::Int, &[y, x])?;
                    definition.storage(id, chunked(&[2, 2], &[]))?;
                    id
                }
            };
            definition.attribute(id, "units", "K")?;
        }
        definition.end()?.close()?;
        let defined = counts();
        let dataset = Dataset::open(&comm, path, OpenMode::ReadOnly, &options)?;
        dataset.variable(&format!("variable_{}", variables - 1))?;
        assert_eq!(dataset.variables().count() as u64, variables);
        dataset.close()?;
        Ok::<_, ArrayError>([defined, counts()])
    });
    let mut sum = [[0; 2]; 2];
    for rank in all.unwrap() {
        for (sum, rank) in sum.iter_mut().flatten().zip(rank.into_iter().flatten()) {
            *sum += rank;
        }
    }
    sum
}

/// No metadata is sent when variables are defined, and all at once when a file is opened.
#[test]
fn ten_thousand_variables_take_as_many_collectives_as_ten() {
    let place = tempfile::tempdir().unwrap();
    let few = costs_of_variables(&place.path().join("few.nc"), 10);
    let many = costs_of_variables(&place.path().join("many.nc"), 10_000);
    assert_eq!(few, many, "[collectives, messages] of defining and of opening");
    assert!(few.iter().all(|[collectives, _]| (4..400).contains(collectives)), "{few:?}");
}

/// Each byte of the metadata is requested about once, by one of the ranks.
#[test]
fn metadata_of_many_variables_is_read_in_few_requests() {
    let embedded = Embedded::start(1).unwrap();
    let path = format!("{}/many.nc", embedded.url());
    costs_of_variables(Path::new(&path), 3000);
    let before = requests_and_stripes(&embedded)[0];
    let variables = Threads::new(4).try_run(|comm| {
        let dataset = Dataset::open(&comm, &path, OpenMode::ReadOnly, &Options::default())?;
        let variables = dataset.variables().count();
        dataset.close()?;
        Ok::<_, ArrayError>(variables)
    });
    assert_eq!(variables.unwrap(), [3000; 4]);
    let requests = requests_and_stripes(&embedded)[0] - before;
    // A server gets one for each strip of 64 KiB, of which the file has 40, and a few for the
    // signature, the superblock and the root group.
    assert!((40..60).contains(&requests), "{requests} requests");
}

/// Rank 0 reads, and all decode: what one rank cannot decode, no rank can.
#[test]
fn a_damaged_file_is_the_same_error_on_all_ranks() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("whole.nc");
    costs_of_variables(&path, 300);
    let whole = std::fs::read(&path).unwrap();
    let damaged = place.path().join("damaged.nc");
    let mut failed = 0;
    for part in 1..40 {
        let mut bytes = whole.clone();
        let at = part * whole.len() / 40;
        if part % 2 == 0 {
            bytes.truncate(at);
        } else {
            bytes[at..(at + 64).min(whole.len())].fill(0x5a);
        }
        std::fs::write(&damaged, &bytes).unwrap();
        let found = Threads::new(4).try_run(|comm| {
            let opened = Dataset::open(&comm, &damaged, OpenMode::ReadOnly, &Options::default());
            match opened {
                Ok(dataset) => {
                    let definitions = format!("{:?}", dataset.header());
                    dataset.close()?;
                    Ok::<_, ArrayError>(Ok(definitions))
                }
                Err(error) => Ok(Err(error.to_string())),
            }
        });
        let found = found.unwrap();
        assert!(found.iter().all(|one| *one == found[0]), "byte {at}: {found:?}");
        failed += usize::from(found[0].is_err());
    }
    assert!(failed > 20, "{failed} of 39 damaged files do not open");
}

const STRIPE: u64 = 1 << 20;
/// Elements of a stripe.
const ELEMENTS: u64 = STRIPE / 8;
const RANKS: u64 = 4;
const SEGMENTS: u64 = 3;

/// Data requests that servers have received, and the parts of stripes that these came to.
fn requests_and_stripes(embedded: &Embedded) -> [u64; 2] {
    let mut sums = [0; 2];
    for server in embedded.servers() {
        for (name, _, _, value) in server.statistics().all() {
            match name {
                "contiguous_requests" | "list_requests" | "typed_requests" => sums[0] += value,
                "parts" => sums[1] += value,
                _ => {}
            }
        }
    }
    sums
}

/// \[BARTZ\]'s 1-OST pattern: blocks of a stripe, dealt out to ranks in turn, each in a call of its
/// own. Requests and stripes of all writes, and of all reads.
fn costs_of_stripes(
    embedded: &Embedded,
    storage: &StorageOptions,
    align: Option<&str>,
) -> [[u64; 2]; 2] {
    let path = format!("{}/a.nc", embedded.url());
    let mut options = Options::default().with("striping_unit", "1MiB").unwrap();
    if let Some(align) = align {
        options.set("nc_var_align_size", align).unwrap();
    }
    let mut all = Threads::new(RANKS as usize)
        .try_run(|comm| {
            let mut definition = Dataset::create(&comm, &path, Format::Netcdf4, &options)?;
            let x = definition.dimension("x", ELEMENTS * RANKS * SEGMENTS)?;
            let data = definition.variable("data", Type::Double, &[x])?;
            definition.storage(data, storage.clone())?;
            let mut dataset = definition.end()?;
            let counts = || {
                comm.barrier()?;
                let counts = requests_and_stripes(embedded);
                comm.barrier()?;
                Ok::<_, ArrayError>(counts)
            };
            let slab = |segment| {
                let block = segment * RANKS + comm.rank() as u64;
                Slab::new(&[block * ELEMENTS], &[ELEMENTS])
            };
            let before = counts()?;
            for segment in 0..SEGMENTS {
                let value = (comm.rank() as u64 * SEGMENTS + segment) as f64;
                dataset.put(data, &slab(segment), &vec![value; ELEMENTS as usize])?;
            }
            let written = counts()?;
            for segment in 0..SEGMENTS {
                let value = (comm.rank() as u64 * SEGMENTS + segment) as f64;
                let mut found = vec![0_f64; ELEMENTS as usize];
                dataset.get(data, &slab(segment), &mut found)?;
                assert!(found.iter().all(|found| found.to_bits() == value.to_bits()));
            }
            let read = counts()?;
            dataset.close()?;
            Ok::<_, ArrayError>([[before, written], [written, read]])
        })
        .unwrap();
    let difference = |[before, after]: [[u64; 2]; 2]| [after[0] - before[0], after[1] - before[1]];
    all.swap_remove(0).map(difference)
}

#[test]
fn aligned_accesses_meet_one_stripe_and_others_two() {
    let embedded = Embedded::start(RANKS as usize).unwrap();
    let accesses = RANKS * SEGMENTS;
    for storage in [StorageOptions::default(), chunked(&[ELEMENTS], &[])] {
        for align in [None, Some("1MiB")] {
            let costs = costs_of_stripes(&embedded, &storage, align);
            assert_eq!(costs, [[accesses; 2]; 2], "one each: {storage:?}, aligned to {align:?}");
        }
        let costs = costs_of_stripes(&embedded, &storage, Some("1"));
        assert_eq!(costs, [[2 * accesses; 2]; 2], "two each: {storage:?}");
    }
}
