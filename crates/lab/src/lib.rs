//! Several nodes on one machine.
//!
//! A [`Lab`] has nodes that programs cannot tell from machines: each has a network, a host name, a
//! boot id, `/tmp`, `/dev/shm` and IPC of its own. A cable leads from each node to a switch, with a
//! rate for each direction; cables are slowed, made lossy, cut and restored, their bytes are
//! counted, and nodes are killed. Jobs of Open MPI and MPICH ([`Lab::mpiexec`]) and plain programs
//! ([`Lab::command`]) run in them.
//!
//! Nothing of a lab has a name in the kernel: namespaces, cables and mounts exist as long as the
//! processes in them. All of these are in one process namespace, whose first process, the *keeper*,
//! ends when its owner does, however that ends; and if the keeper is killed, the kernel kills all
//! others. So nothing can be left behind but a directory with files, which the next lab removes.
//! Labs share nothing, not even addresses: each has a switch of its own that leads nowhere else.
//!
//! It takes root, iproute2, util-linux and a kernel with veth, bridge and tbf.

mod counters;
mod error;
mod job;
mod keeper;
mod lab;
mod link;
mod node;
mod processes;
mod programs;
mod rate;
mod record;
mod settings;

pub use counters::LinkBytes;
pub use error::LabError;
pub use job::{Mpi, RanksOfNode};
pub use lab::Lab;
pub use link::Link;
pub use processes::NodeProcess;
pub use programs::check as check_machine;
pub use rate::Rate;
pub use record::{LabRecord, NodeRecord};
pub use settings::LabSettings;
