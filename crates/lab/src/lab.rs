//! [`Lab`]: a lab of nodes, built and used.

use std::env;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::counters::of_port;
use crate::job::{Mpi, RanksOfNode};
use crate::keeper::{self, STAY};
use crate::record::{self, LabRecord, NodeRecord};
use crate::{LabError, LabSettings, Link, LinkBytes, NodeProcess, node, processes, programs};

/// How long the kernel may take to end the processes of a lab.
const END: Duration = Duration::from_secs(20);

/// A lab of nodes. Dropping it ends all of its processes, unless it was [kept](Lab::keep) or
/// [opened](Lab::open).
#[derive(Debug)]
pub struct Lab {
    record: LabRecord,
    /// The keeper ends when it is closed.
    pipe: Option<ChildStdin>,
}

impl Lab {
    /// Builds a lab, which lives until it is dropped, or this process ends in any way.
    pub fn up(settings: &LabSettings) -> Result<Self, LabError> {
        settings.check()?;
        programs::check()?;
        let shared = shared(settings)?;
        Self::remove_remains();
        let name = record::create(settings.name.as_deref())?;
        let directory = record::directory(&name);
        let keeper = match keeper::start(&directory) {
            Ok(keeper) => keeper,
            Err(error) => {
                let _ = record::remove(&name);
                return Err(error);
            }
        };
        let mut record = LabRecord::new(name, keeper.pid, shared);
        // Otherwise it would pass for one whose keeper was killed.
        record.write()?;
        record.nodes = (settings.links.iter().enumerate())
            .map(|(i, link)| NodeRecord {
                name: format!("n{}", i + 1),
                address: format!("10.99.{}.{}", (i + 1) / 250, (i + 1) % 250),
                holder: 0,
                link: *link,
                is_cut: false,
            })
            .collect();
        let mut lab = Self { record, pipe: Some(keeper.pipe) };
        node::prepare(&directory, &lab.record.nodes)?;
        let LabRecord { keeper, nodes, shared, .. } = &mut lab.record;
        node::start(*keeper, &directory, nodes, shared)?;
        lab.record.write()?;
        Ok(lab)
    }

    /// Finds a lab that was kept.
    pub fn open(name: &str) -> Result<Self, LabError> {
        let record = LabRecord::read(name)?;
        if !record.is_alive() {
            return Err(LabError::Gone(name.to_owned()));
        }
        Ok(Self { record, pipe: None })
    }

    /// All labs of this machine, with those whose keeper was killed.
    pub fn all() -> Vec<Result<LabRecord, LabError>> {
        record::names().iter().map(|name| LabRecord::read(name)).collect()
    }

    /// Lets the lab outlive this process, until [`Lab::down`].
    pub fn keep(&mut self) -> Result<(), LabError> {
        if let Some(mut pipe) = self.pipe.take() {
            let said = pipe.write_all(STAY.as_bytes());
            said.map_err(|source| LabError::io("cannot tell the keeper to stay", source))?;
        }
        Ok(())
    }

    /// Ends the lab of this name with all processes in it, or removes what is left of one that was
    /// killed.
    pub fn down(name: &str) -> Result<(), LabError> {
        let record = LabRecord::read(name)?;
        if record.is_alive() {
            processes::kill(record.keeper);
        }
        wait_for_end(&record);
        record::remove(name)
    }

    /// Removes the files of labs whose keeper was killed.
    fn remove_remains() {
        for record in Self::all().into_iter().flatten().filter(|record| !record.is_alive()) {
            let _ = record::remove(&record.name);
        }
    }

    /// What is known of it.
    pub fn record(&self) -> &LabRecord {
        &self.record
    }

    /// Its nodes.
    pub fn nodes(&self) -> &[NodeRecord] {
        &self.record.nodes
    }

    /// The number of the node of this name.
    pub fn node_called(&self, name: &str) -> Result<usize, LabError> {
        let found = self.record.nodes.iter().position(|node| node.name == name);
        found.ok_or_else(|| self.no_node(name.to_owned()))
    }

    fn no_node(&self, node: String) -> LabError {
        LabError::NoNode { lab: self.record.name.clone(), node }
    }

    fn node(&self, node: usize) -> Result<&NodeRecord, LabError> {
        let found = self.record.nodes.get(node).filter(|node| node.holder != 0);
        found.ok_or_else(|| self.no_node(format!("{} that is alive", node + 1)))
    }

    /// A program in a node, in the directory that is current here now; its arguments are still to
    /// come. If the child that it becomes is killed, the program is, too.
    pub fn command(&self, node: usize, program: impl AsRef<Path>) -> Result<Command, LabError> {
        let holder = self.node(node)?.holder;
        let mut command = node::enter(holder, &["-p", "-m", "-u", "-n", "-i"]);
        let here = env::current_dir().unwrap_or_else(|_| "/".into());
        command.args(["setpriv", "--pdeathsig", "KILL", "sh", "-c", "cd \"$0\" && exec \"$@\""]);
        command.arg(here).arg(program.as_ref());
        Ok(command)
    }

    /// The launcher of an MPI with so many ranks on nodes, in the first of these; words about
    /// variables, the program and its arguments are still to come.
    pub fn mpiexec(&self, mpi: Mpi, ranks: &[RanksOfNode]) -> Result<Command, LabError> {
        let first = ranks.first().ok_or_else(|| LabError::Setting("a job has ranks".into()))?;
        let placed: Result<Vec<(&str, usize)>, LabError> =
            ranks.iter().map(|of| Ok((self.node(of.node)?.name.as_str(), of.ranks))).collect();
        let paths = env::var_os("PATH").unwrap_or_default();
        let known = |name: &&str| env::split_paths(&paths).any(|path| path.join(name).exists());
        let [sure, other] = mpi.launchers();
        let launcher = [sure].into_iter().find(|name| known(name)).unwrap_or(other);
        let mut command = self.command(first.node, launcher)?;
        command.args(mpi.words(&self.record.directory(), &placed?));
        // What this process was told as a rank of a job is not for ranks of another.
        for (name, _) in env::vars_os() {
            let text = name.to_string_lossy();
            if ["OMPI_", "PMIX_", "PMI_"].iter().any(|prefix| text.starts_with(prefix)) {
                command.env_remove(&name);
            }
        }
        command.stdin(Stdio::null());
        Ok(command)
    }

    /// Changes what the cable of a node lets pass.
    pub fn set_link(&mut self, node: usize, link: Link) -> Result<(), LabError> {
        link.check()?;
        node::set_link(self.record.keeper, self.node(node)?, &link)?;
        self.record.nodes[node].link = link;
        self.record.write()
    }

    /// Cuts the cable of a node: nothing passes, and nobody is told.
    pub fn cut(&mut self, node: usize) -> Result<(), LabError> {
        self.set_cut(node, true)
    }

    /// Mends the cable of a node.
    pub fn restore(&mut self, node: usize) -> Result<(), LabError> {
        self.set_cut(node, false)
    }

    fn set_cut(&mut self, node: usize, is_cut: bool) -> Result<(), LabError> {
        node::set_cut(self.record.keeper, &self.node(node)?.name, is_cut)?;
        self.record.nodes[node].is_cut = is_cut;
        self.record.write()
    }

    /// Kills a node, as a failure of its power would: its processes say nothing to anybody.
    pub fn kill(&mut self, node: usize) -> Result<(), LabError> {
        let record = self.node(node)?.clone();
        // The kernel would tell the peers of connections whose processes are killed.
        node::set_cut(self.record.keeper, &record.name, true)?;
        let begin = Instant::now();
        loop {
            let processes = processes::beside(record.holder);
            for process in &processes {
                processes::kill(process.pid);
            }
            // What was just born is found the next time.
            if processes.is_empty() || begin.elapsed() > END {
                break;
            }
        }
        processes::kill(record.holder);
        node::remove_port(self.record.keeper, &record.name);
        let _ = fs::remove_file(self.record.directory().join(format!("{}.pid", record.name)));
        self.record.nodes[node].holder = 0;
        self.record.write()
    }

    /// Starts a node again that was killed: with the same name, address and link, and nothing in
    /// its `/tmp`.
    pub fn start(&mut self, node: usize) -> Result<(), LabError> {
        if self.record.nodes.get(node).is_none_or(|node| node.holder != 0) {
            return Err(self.no_node(format!("{} that was killed", node + 1)));
        }
        let directory = self.record.directory();
        let LabRecord { keeper, nodes, shared, .. } = &mut self.record;
        let started = &mut nodes[node];
        started.is_cut = false;
        node::renew_boot_id(&directory, &started.name)?;
        node::start(*keeper, &directory, std::slice::from_mut(started), shared)?;
        self.record.write()
    }

    /// What has passed over the cables since the nodes were started.
    pub fn link_bytes(&self) -> Result<Vec<LinkBytes>, LabError> {
        let path = format!("/proc/{}/net/dev", self.record.keeper);
        let text = fs::read_to_string(&path)
            .map_err(|source| LabError::io(format!("cannot read {path}"), source))?;
        let of = |node: &NodeRecord| of_port(&text, &node.name).unwrap_or_default();
        Ok(self.record.nodes.iter().map(of).collect())
    }

    /// The processes that run in a node, except the one that holds it.
    pub fn processes(&self, node: usize) -> Result<Vec<NodeProcess>, LabError> {
        let holder = self.node(node)?.holder;
        let mut beside = processes::beside(holder);
        // The holder's own, for which it waits.
        beside.retain(|process| {
            processes::parent(process.pid) != Some(holder) || process.name != "sleep"
        });
        Ok(beside)
    }

    /// A path in a node, as a path here: for what is in its `/tmp`.
    pub fn path_in(&self, node: usize, path: &Path) -> Result<PathBuf, LabError> {
        let root = PathBuf::from(format!("/proc/{}/root", self.node(node)?.holder));
        Ok(root.join(path.strip_prefix("/").unwrap_or(path)))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(pipe) = self.pipe.take() {
            drop(pipe);
            wait_for_end(&self.record);
        }
    }
}

/// Waits until the kernel has ended all processes of a lab.
fn wait_for_end(record: &LabRecord) {
    let begin = Instant::now();
    while record.is_alive() && begin.elapsed() < END {
        sleep(Duration::from_millis(2));
    }
}

/// The directories that must be shared, by their real names; others are seen anyway.
fn shared(settings: &LabSettings) -> Result<Vec<PathBuf>, LabError> {
    let mut shared = Vec::new();
    for path in &settings.shared {
        let real = path.canonicalize();
        let real = real.map_err(|e| LabError::io(format!("cannot share {}", path.display()), e))?;
        for private in ["/tmp", "/dev/shm"] {
            if real == Path::new(private) {
                let said = format!("nodes have {private} of their own; share a directory in it");
                return Err(LabError::Setting(said));
            }
            if real.starts_with(private) {
                shared.push(real.clone());
            }
        }
    }
    // Those in others are there with them.
    shared.sort();
    shared.dedup_by(|inner, outer| inner.starts_with(&*outer));
    Ok(shared)
}
