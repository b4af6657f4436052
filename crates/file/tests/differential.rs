//! All methods, domains, stores and calls against a plain model, byte by byte.
//!
//! A case is made from its number alone: ranks, nodes, a store, hints, and a sequence of steps,
//! each with what it must leave in the file and in memory. Ranks then do the steps, and compare.
//!
//! What is written depends on the offset and the step only, so that calls may overlap and the
//! outcome is still one.
//!
//! * `STRIATE_CASE=17` runs case 17 alone, and tells what it does.
//! * `STRIATE_LIMIT=10` says after how many seconds a case counts as hanging (180).
//! * `STRIATE_CASES=100000` runs so many cases instead of the usual ones.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use striate_comm::{Comm, Threads};
use striate_datatype::Datatype;
use striate_file::{File, FileError, Hints, Memory, MemoryMut, Mode, Typed, View};
use striate_server::Embedded;
use striate_store::conformance::CloseToOpen;
use striate_store::rados::{RadosCreation, RadosFile, RadosNamespace, use_configuration};
use striate_store::remote::{Client, Layout, RemoteFile, RemoteOptions};
use striate_store::{Coherent, MemoryStore, PosixFile, PosixOptions, Store};
use striate_testing::CephCluster;
use support::{
    PlainMemory, PlainView, Random, Watchdog, content, number_from, random_threads, random_views,
};

const CASES: u64 = 6000;
/// Tests that cargo runs side by side.
const GROUPS: u64 = 4;

const METHODS: [&str; 6] = ["auto", "posix", "sieve", "two-phase", "list", "datatype"];
const DOMAINS: [&str; 6] =
    ["auto", "even", "aligned", "static-cycling", "group-cycling", "x-target"];

#[derive(Clone, Copy, Debug, PartialEq)]
enum ObjectKind {
    /// A file on disk, opened by path.
    Path,
    /// A file in memory, each rank with a store of its own.
    Shm,
    Memory,
    /// As on NFS: each rank with a cache of its own, which others' writes do not change.
    CloseToOpen,
}

/// The calls that move data.
#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    AtAll,
    All,
    At,
    Own,
    IAtAll,
    IAt,
    I,
}

impl How {
    const ALL: [Self; 7] =
        [Self::AtAll, Self::All, Self::At, Self::Own, Self::IAtAll, Self::IAt, Self::I];

    fn uses_pointer(self) -> bool {
        matches!(self, Self::All | Self::Own | Self::I)
    }
}

/// One call of one rank, and what it must lead to.
#[derive(Clone, Debug)]
struct ModelCall {
    write: bool,
    how: How,
    offset: u64,
    memory: PlainMemory,
    moved: u64,
    memory_after: Vec<u8>,
    position_after: u64,
}

enum Step {
    Views(Vec<View>),
    Seek(Vec<u64>),
    Resize(u64),
    Preallocate(u64),
    Atomicity(bool),
    Sync,
    Calls {
        /// For each rank.
        calls: Vec<Vec<ModelCall>>,
        /// The order in which each rank waits for those that do not block.
        waits: Vec<Vec<usize>>,
    },
}

struct Case {
    ranks: usize,
    threads: Threads,
    place: ObjectKind,
    hints: Hints,
    initial: Vec<u8>,
    /// Steps, and the file after each.
    steps: Vec<(Step, Vec<u8>)>,
    story: String,
}

fn random_hints(random: &mut Random, number: u64, ranks: u64) -> Hints {
    let mut hints = Hints::default();
    let mut set = |name: &str, value: &str| hints.set(name, value).unwrap();
    set("striate_method", METHODS[(number % 6) as usize]);
    set("striate_domains", DOMAINS[(number / 6 % 6) as usize]);
    if random.percent(60) {
        set("cb_nodes", &random.from(1, ranks + 1).to_string());
    }
    if random.percent(40) {
        set("cb_config_list", &format!("*:{}", random.from(1, 3)));
    }
    if random.percent(90) {
        set("cb_buffer_size", &random.mostly_small(64, 4096).to_string());
    }
    if random.percent(25) {
        set("striate_exchange", "messages");
    }
    for name in ["romio_cb_read", "romio_cb_write", "romio_ds_read", "romio_ds_write"] {
        if random.percent(30) {
            set(name, random.pick(&["enable", "disable", "automatic"]));
        }
    }
    if random.percent(85) {
        set("ind_rd_buffer_size", &random.mostly_small(64, 4096).to_string());
        set("ind_wr_buffer_size", &random.mostly_small(64, 4096).to_string());
    }
    set("striate_list_regions", &random.from(1, 64).to_string());
    if random.percent(80) {
        set("striping_unit", &random.mostly_small(16, 4096).to_string());
    }
    if random.percent(50) {
        set("striping_factor", &random.from(1, 7).to_string());
    }
    set("striate_x_targets", &random.from(1, 4).to_string());
    hints
}

/// The model, while a case is made.
struct Model {
    file: Vec<u8>,
    views: Vec<PlainView>,
    /// Ranks that see nothing have no part in calls.
    mute: Vec<bool>,
    positions: Vec<u64>,
}

impl Model {
    fn call(
        &mut self,
        rank: usize,
        write: bool,
        how: How,
        offset: u64,
        salt: u64,
        mut memory: PlainMemory,
    ) -> ModelCall {
        let view = &self.views[rank];
        let offset = if how.uses_pointer() { self.positions[rank] } else { offset };
        let places = view.offsets(offset, memory.len());
        let mut moved = 0;
        let mut memory_after = memory.buffer.clone();
        if write {
            for (&at, &index) in places.iter().zip(&memory.stream) {
                memory.buffer[index] = content(at, salt);
            }
            memory_after.clone_from(&memory.buffer);
            if let Some(&last) = places.last() {
                let end = self.file.len().max(last as usize + 1);
                self.file.resize(end, 0);
            }
            for &at in &places {
                self.file[at as usize] = content(at, salt);
            }
            moved = memory.len();
        } else {
            for (&at, &index) in places.iter().zip(&memory.stream) {
                let Some(&byte) = self.file.get(at as usize) else { break };
                memory_after[index] = byte;
                moved += 1;
            }
        }
        if how.uses_pointer() {
            let bytes = if how == How::I { memory.len() } else { moved };
            self.positions[rank] += bytes / view.etype;
        }
        let position_after = self.positions[rank];
        ModelCall { write, how, offset, memory, moved, memory_after, position_after }
    }
}

impl Case {
    fn new(number: u64) -> Self {
        let ranks = Random::new(!number).from(1, 9) as usize;
        let place =
            [ObjectKind::Path, ObjectKind::Shm, ObjectKind::Memory, ObjectKind::CloseToOpen]
                [(number / 36 % 4) as usize];
        Self::of(number, ranks, place)
    }

    fn of(number: u64, ranks: usize, place: ObjectKind) -> Self {
        let random = &mut Random::new(number);
        let (threads, nodes) = random_threads(random, ranks);
        let hints = random_hints(random, number, ranks as u64);
        let initial_len = if random.percent(30) { 0 } else { random.mostly_small(1, 30_000) };
        let initial = random.bytes(initial_len as usize);
        let mut model = Model {
            file: initial.clone(),
            views: vec![PlainView::bytes(); ranks],
            mute: vec![false; ranks],
            positions: vec![0; ranks],
        };
        let mut story = format!("{ranks} ranks on nodes {nodes}, {place:?}, {hints}\n");
        let mut steps = Vec::new();
        for salt in 0..random.from(4, 9) {
            let step = match random.below(20) {
                _ if salt == 0 && random.percent(90) => new_views(random, &mut model, ranks),
                0..=2 => new_views(random, &mut model, ranks),
                3 => {
                    model.positions = (0..ranks).map(|_| random.from(0, 50)).collect();
                    Step::Seek(model.positions.clone())
                }
                4 if random.percent(50) => {
                    let len = random.from(0, 20_000);
                    model.file.resize(len as usize, 0);
                    Step::Resize(len)
                }
                4 => {
                    let len = random.from(0, 20_000);
                    model.file.resize(model.file.len().max(len as usize), 0);
                    Step::Preallocate(len)
                }
                5 => Step::Atomicity(random.percent(50)),
                6 => Step::Sync,
                _ => calls(random, &mut model, number * 100 + salt),
            };
            tell(&mut story, &step, model.file.len());
            steps.push((step, model.file.clone()));
        }
        Self { ranks, threads, place, hints, initial, steps, story }
    }
}

fn new_views(random: &mut Random, model: &mut Model, ranks: usize) -> Step {
    let views = random_views(random, ranks);
    model.mute = views.iter().map(Option::is_none).collect();
    let some = views.iter().flatten().next().cloned().unwrap_or_else(PlainView::bytes);
    model.views = views.into_iter().map(|view| view.unwrap_or_else(|| some.clone())).collect();
    model.positions = vec![0; ranks];
    Step::Views(model.views.iter().map(|view| view.view.clone()).collect())
}

fn calls(random: &mut Random, model: &mut Model, salt: u64) -> Step {
    let ranks = model.views.len();
    let write = random.percent(55);
    let how_many = random.pick(&[1, 1, 1, 2, 3, 4]);
    // How uneven the ranks are.
    let idle = random.pick(&[0, 0, 0, 15, 60, 100]);
    let scale = random.pick(&[30, 300, 300, 3000]);
    let mut all: Vec<Vec<ModelCall>> = vec![Vec::new(); ranks];
    for _ in 0..how_many {
        let how = if how_many == 1 {
            random.pick(&How::ALL)
        } else {
            random.pick(&[How::IAtAll, How::IAtAll, How::IAt, How::I, How::AtAll, How::All])
        };
        for (rank, calls) in all.iter_mut().enumerate() {
            let view = &model.views[rank];
            // Spans stay moderate however sparse the view is.
            let most = (40_000 / view.extent().max(1) + 1) * view.size();
            let len = random.mostly_small(0, scale * view.etype).min(most);
            let len = if model.mute[rank] || random.percent(idle) { 0 } else { len };
            let offset = random.mostly_small(0, 600).min(most / view.etype);
            let memory = PlainMemory::random(random, len, view.etype);
            calls.push(model.call(rank, write, how, offset, salt, memory));
        }
    }
    let waits = (0..ranks)
        .map(|_| {
            let mut order: Vec<usize> = (0..how_many).collect();
            random.shuffle(&mut order);
            order
        })
        .collect();
    Step::Calls { calls: all, waits }
}

fn tell(story: &mut String, step: &Step, len: usize) {
    // Writing to a string cannot fail.
    let mut say = |text: String| writeln!(story, "  {text}").unwrap();
    match step {
        Step::Views(views) => {
            for (rank, view) in views.iter().enumerate() {
                let (at, etype) = (view.displacement(), view.etype().size());
                say(format!("rank {rank} sees {} at {at} in units of {etype}", view.filetype()));
            }
        }
        Step::Seek(to) => say(format!("seek {to:?}")),
        Step::Resize(to) => say(format!("set_size {to}")),
        Step::Preallocate(to) => say(format!("preallocate {to}")),
        Step::Atomicity(on) => say(format!("atomicity {on}")),
        Step::Sync => say("sync".into()),
        Step::Calls { calls, .. } => {
            for i in 0..calls[0].len() {
                let ModelCall { write, how, .. } = calls[0][i];
                let what = if write { "write" } else { "read" };
                let of = calls.iter().map(|calls| (calls[i].offset, calls[i].memory.len()));
                let of: Vec<_> = of.collect();
                say(format!("{what} {how:?}, (offset, bytes) of ranks: {of:?}"));
            }
        }
    }
    say(format!("  the file has then {len} bytes"));
}

/// Where the file of a case is, and how its bytes are looked at.
enum Object {
    File(PathBuf),
    Memory(MemoryStore),
    CloseToOpen(MemoryStore),
    /// By its URL.
    Servers(String),
    /// By its URL.
    Rados(String),
}

impl Object {
    fn new(place: ObjectKind, directory: &Path, initial: &[u8]) -> Self {
        if matches!(place, ObjectKind::Memory | ObjectKind::CloseToOpen) {
            let store = MemoryStore::new("object");
            store.write_at(0, initial).unwrap();
            return match place {
                ObjectKind::Memory => Self::Memory(store),
                _ => Self::CloseToOpen(store),
            };
        }
        let path = directory.join("file");
        std::fs::write(&path, initial).unwrap();
        Self::File(path)
    }

    fn image(&self) -> Vec<u8> {
        match self {
            Self::File(path) => std::fs::read(path).unwrap(),
            Self::Memory(store) | Self::CloseToOpen(store) => image_of(store),
            Self::Servers(url) => image_of(
                &RemoteFile::open(&url.parse().unwrap(), &RemoteOptions::default()).unwrap(),
            ),
            Self::Rados(url) => image_of(
                &RadosFile::open(&url.parse().unwrap(), &RadosCreation::default()).unwrap(),
            ),
        }
    }

    fn open(&self, comm: &Arc<dyn Comm>, case: &Case) -> Result<File, FileError> {
        let mode = Mode::READ | Mode::WRITE;
        let store: Arc<dyn Store> = match self {
            Self::File(path) if case.place == ObjectKind::Path => {
                return File::open(comm, path, mode | Mode::CREATE, &case.hints);
            }
            Self::Servers(url) | Self::Rados(url) => {
                return File::open(comm, url, mode, &case.hints);
            }
            Self::File(path) => Arc::new(PosixFile::open(path, &PosixOptions::read_write())?),
            Self::Memory(store) => Arc::new(store.clone()),
            Self::CloseToOpen(server) => Arc::new(Coherent::new(CloseToOpen::open(server)?)),
        };
        File::on_store(comm, store, mode, &case.hints)
    }
}

fn image_of(store: &dyn Store) -> Vec<u8> {
    let mut image = vec![0; store.len().unwrap() as usize];
    assert_eq!(store.read_at(0, &mut image).unwrap(), image.len());
    image
}

fn differing(what: &str, found: &[u8], expected: &[u8]) {
    if found == expected {
        return;
    }
    let both = found.len().min(expected.len());
    let at: Vec<usize> = (0..both).filter(|&i| found[i] != expected[i]).collect();
    panic!(
        "{what}: {} bytes, expected {}; {} differ, from {:?} to {:?}",
        found.len(),
        expected.len(),
        at.len(),
        at.first(),
        at.last()
    );
}

fn check(
    call: &ModelCall,
    memory: &[u8],
    moved: Result<u64, FileError>,
    position: Option<u64>,
) -> Result<(), FileError> {
    let what =
        format!("{:?} {} at {}", call.how, if call.write { "write" } else { "read" }, call.offset);
    let moved = moved?;
    assert_eq!(moved, call.moved, "{what}: bytes moved");
    differing(&format!("{what}: memory"), memory, &call.memory_after);
    if let Some(position) = position {
        assert_eq!(position, call.position_after, "{what}: pointer");
    }
    Ok(())
}

fn blocking(file: &mut File, call: &ModelCall) -> Result<(), FileError> {
    let mut buffer = call.memory.buffer.clone();
    let PlainMemory { origin, count, datatype, .. } = &call.memory;
    let moved = if call.write {
        let memory = match datatype {
            Some(datatype) => Memory::new(&buffer, *origin, *count, datatype)?,
            None => Memory::from(&buffer),
        };
        match call.how {
            How::AtAll => file.write_at_all(call.offset, memory),
            How::All => file.write_all(memory),
            How::At => file.write_at(call.offset, memory),
            _ => file.write(memory),
        }
    } else {
        let memory = match datatype {
            Some(datatype) => MemoryMut::new(&mut buffer, *origin, *count, datatype)?,
            None => MemoryMut::from(&mut buffer),
        };
        match call.how {
            How::AtAll => file.read_at_all(call.offset, memory),
            How::All => file.read_all(memory),
            How::At => file.read_at(call.offset, memory),
            _ => file.read(memory),
        }
    };
    check(call, &buffer, moved, Some(file.position()))
}

/// What a nonblocking call gets; buffers as they are, too, by way of a type.
fn typed(memory: &PlainMemory) -> Result<Typed<Vec<u8>>, FileError> {
    let PlainMemory { buffer, origin, count, datatype, .. } = memory;
    let all = Datatype::bytes(buffer.len() as u64)?;
    Ok(Typed::new(buffer.clone(), *origin, *count, datatype.as_ref().unwrap_or(&all))?)
}

fn run_calls(file: &mut File, calls: &[ModelCall], waits: &[usize]) -> Result<(), FileError> {
    let mut requests = Vec::new();
    for call in calls {
        let buffer = || typed(&call.memory);
        requests.push(match (call.how, call.write) {
            (How::IAtAll, true) => Some(file.iwrite_at_all(call.offset, buffer()?)),
            (How::IAtAll, false) => Some(file.iread_at_all(call.offset, buffer()?)),
            (How::IAt, true) => Some(file.iwrite_at(call.offset, buffer()?)?),
            (How::IAt, false) => Some(file.iread_at(call.offset, buffer()?)?),
            (How::I, true) => Some(file.iwrite(buffer()?)?),
            (How::I, false) => Some(file.iread(buffer()?)?),
            _ => {
                blocking(file, call)?;
                None
            }
        });
        assert_eq!(file.position(), call.position_after, "{:?}: pointer", call.how);
    }
    for &i in waits {
        if let Some(request) = requests[i].take() {
            let (buffer, moved) = file.wait(request);
            check(&calls[i], &buffer.into_inner(), moved, None)?;
        }
    }
    Ok(())
}

fn run_rank(case: &Case, object: &Object, comm: &Arc<dyn Comm>) -> Result<(), FileError> {
    let rank = comm.rank();
    let mut file = object.open(comm, case)?;
    for (number, (step, image)) in case.steps.iter().enumerate() {
        match step {
            Step::Views(views) => file.set_view(views[rank].clone())?,
            Step::Seek(to) => file.seek(to[rank]),
            Step::Resize(len) => file.set_size(*len)?,
            Step::Preallocate(len) => file.preallocate(*len)?,
            Step::Atomicity(on) => file.set_atomicity(*on)?,
            Step::Sync => file.sync()?,
            Step::Calls { calls, waits } => run_calls(&mut file, &calls[rank], &waits[rank])?,
        }
        comm.barrier()?;
        if rank == 0 {
            differing(&format!("step {number}: the file"), &object.image(), image);
        }
        assert_eq!(file.size()?, image.len() as u64, "step {number}: size");
        comm.barrier()?;
    }
    file.close()
}

fn run_case(number: u64, disk: &Path, shm: &Path, talk: bool) {
    let case = Case::new(number);
    if talk {
        eprintln!("case {number}: {}", case.story);
    }
    let object = Object::new(
        case.place,
        if case.place == ObjectKind::Shm { shm } else { disk },
        &case.initial,
    );
    run_on(number, &case, &object);
}

fn run_on(number: u64, case: &Case, object: &Object) {
    let results = case.threads.try_run(|comm| run_rank(case, object, &comm));
    match results {
        Ok(ranks) => assert_eq!(ranks.len(), case.ranks),
        Err(error) => {
            panic!("case {number} (STRIATE_CASE={number} runs it alone): {error}\n{}", case.story)
        }
    }
}

fn run_group(group: u64) {
    let disk = tempfile::tempdir().unwrap();
    let shm = tempfile::tempdir_in("/dev/shm").unwrap();
    let watchdog = Watchdog::new(Duration::from_secs(180), "the start");
    let run = |number: u64, talk: bool| {
        watchdog.at(format!("case {number} of the differential test"));
        run_case(number, disk.path(), shm.path(), talk);
    };
    if let Some(number) = number_from("STRIATE_CASE") {
        if number % GROUPS == group {
            run(number, true);
        }
        return;
    }
    let cases = number_from("STRIATE_CASES").unwrap_or(CASES);
    (group..cases).step_by(GROUPS as usize).for_each(|number| run(number, false));
}

#[test]
fn first_quarter_of_the_cases() {
    run_group(0);
}

#[test]
fn second_quarter_of_the_cases() {
    run_group(1);
}

#[test]
fn third_quarter_of_the_cases() {
    run_group(2);
}

#[test]
fn last_quarter_of_the_cases() {
    run_group(3);
}

/// The same with files that are striped over servers, in strips that most accesses cross.
#[test]
fn on_servers() {
    let embedded = Embedded::start(3).unwrap();
    let watchdog = Watchdog::new(Duration::from_secs(180), "the start");
    let run = |number: u64| {
        watchdog.at(format!("case {number} on servers"));
        let case = Case::new(number);
        let url = format!("{}/case-{number}", embedded.url());
        let strip = [512, 513, 4096, 64 << 10][(number % 4) as usize];
        let servers = Some((number / 4 % 3) as u32 + 1);
        let layout = Layout { strip, servers, first: None };
        let options = RemoteOptions { create: true, exclusive: true, layout };
        let file = RemoteFile::open(&url.parse().unwrap(), &options).unwrap();
        file.write_at(0, &case.initial).unwrap();
        run_on(number, &case, &Object::Servers(url.clone()));
        File::delete(&url).unwrap();
    };
    match number_from("STRIATE_CASE") {
        Some(number) => run(number),
        None => (0..number_from("STRIATE_CASES").unwrap_or(CASES) / 10).for_each(run),
    }
    let client = Client::shared(&embedded.url().parse().unwrap()).unwrap();
    for address in client.servers().unwrap() {
        assert_eq!(client.space(&address).unwrap().objects, 0, "objects of deleted files");
    }
}

/// The same with files in a pool of Ceph, whose strips most accesses cross.
#[test]
fn on_rados() {
    let cluster = CephCluster::shared();
    use_configuration(Some(&cluster.configuration()));
    let watchdog = Watchdog::new(Duration::from_secs(180), "the start");
    let run = |number: u64| {
        watchdog.at(format!("case {number} on RADOS"));
        let case = Case::new(number);
        let url = format!("rados://data/cases/case-{number}");
        let strip = [512, 513, 4096, 64 << 10][(number % 4) as usize];
        let creation = RadosCreation { create: true, exclusive: true, strip };
        let file = RadosFile::open(&url.parse().unwrap(), &creation).unwrap();
        file.write_at(0, &case.initial).unwrap();
        run_on(number, &case, &Object::Rados(url.clone()));
        File::delete(&url).unwrap();
    };
    match number_from("STRIATE_CASE") {
        Some(number) => run(number),
        None => (0..number_from("STRIATE_CASES").unwrap_or(CASES) / 40).for_each(run),
    }
    let namespace = RadosNamespace::open(&"rados://data/cases/".parse().unwrap()).unwrap();
    assert_eq!(namespace.list("").unwrap(), []);
    let objects = cluster.ceph("rados", &["--pool", "data", "--namespace", "cases", "ls"]);
    assert_eq!(objects, "striate.catalogue\n", "objects of deleted files");
}

/// The same with ranks that are processes. Each makes the case from its number, so nothing but the
/// file is shared.
#[cfg(feature = "mpi")]
mod processes {
    use striate_testing::mpi_job;

    use super::*;

    const CASES: u64 = 150;

    fn run_job(first: u64, ranks_per_node: &str) {
        // Nodes of a lab have a `/dev/shm` each.
        let directory = match mpi_job::lab() {
            Some(_) => tempfile::tempdir().unwrap(),
            None => tempfile::tempdir_in("/dev/shm").unwrap(),
        };
        let directory = directory.path().to_str().unwrap();
        let first = first.to_string();
        let mut variables = vec![("STRIATE_DIRECTORY", directory), ("STRIATE_FIRST", &first)];
        if !ranks_per_node.is_empty() {
            variables.push(("STRIATE_RANKS_PER_NODE", ranks_per_node));
        }
        mpi_job::run_test("processes::ranks_of_a_job", &variables);
    }

    #[test]
    fn of_one_node() {
        run_job(0, "");
    }

    #[test]
    fn of_simulated_nodes() {
        run_job(1000, "1");
        if mpi_job::ranks() > 2 {
            run_job(2000, "2");
            run_job(3000, "3");
        }
    }

    #[test]
    #[ignore = "run by the tests above, as ranks"]
    fn ranks_of_a_job() {
        let directory = PathBuf::from(std::env::var_os("STRIATE_DIRECTORY").unwrap());
        let first = number_from("STRIATE_FIRST").unwrap();
        let watchdog = Watchdog::new(Duration::from_secs(180), "the start");
        striate_comm::mpi::run(|comm| -> Result<(), FileError> {
            for number in first..first + CASES {
                watchdog.at(format!("case {number} of a job"));
                let case = Case::of(number, comm.size(), ObjectKind::Path);
                if comm.rank() == 0 {
                    std::fs::write(directory.join("file"), &case.initial).unwrap();
                }
                comm.barrier()?;
                let object = Object::File(directory.join("file"));
                run_rank(&case, &object, &comm)
                    .unwrap_or_else(|error| panic!("case {number}: {error}\n{}", case.story));
                comm.barrier()?;
            }
            Ok(())
        })
        .unwrap();
    }
}
