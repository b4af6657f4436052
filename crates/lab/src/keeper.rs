//! The keeper: the first process of a lab, with which all others of it end.
//!
//! It is the first process of a process namespace, so the kernel kills all processes of the lab
//! when it ends. It ends when its standard input does, which is a pipe from the owner of the lab:
//! that closes also when the owner is killed. A lab that outlives its owner says so through the
//! pipe. Its network namespace has the switch.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{ChildStdin, Stdio};

use crate::LabError;
use crate::programs::command;

/// It tells its process id as the owner sees it, and keeps the owner's `/proc` at hand for the
/// nodes. `wait` also collects processes whose parents have ended.
const SCRIPT: &str = r#"
read -r pid _ </proc/self/stat
mkdir -p "$1/outer" && mount --bind /proc "$1/outer" && mount -t proc proc /proc || exit 1
ip link set lo up && ip link add name switch type bridge && ip link set switch up || exit 1
echo "$pid"
exec 3<&0 </dev/null >/dev/null 2>&1
{ if read -r word && [ "$word" = stay ]; then exec sleep infinity; fi; } <&3 &
exec 3<&-
wait $!
umount "$1/outer"
rm -rf --one-file-system "$1"
"#;

/// What the owner writes to have the lab outlive it.
pub(crate) const STAY: &str = "stay\n";

/// A keeper that was started.
#[derive(Debug)]
pub(crate) struct Keeper {
    /// Its process id.
    pub(crate) pid: u32,
    /// It ends when this is closed.
    pub(crate) pipe: ChildStdin,
}

/// Starts the keeper of the lab whose files are in this directory.
pub(crate) fn start(directory: &Path) -> Result<Keeper, LabError> {
    let failed = |source| LabError::io("cannot start the keeper of a lab", source);
    let namespaces = ["--pid", "--mount", "--net", "--ipc", "--uts"];
    let mut unshare = command("unshare");
    unshare.args(["--fork", "--kill-child"]).args(namespaces).args(["--propagation", "private"]);
    unshare.args(["sh", "-c", SCRIPT, "keeper"]).arg(directory);
    // An interruption from the terminal is the owner's affair. No directory is kept in use.
    unshare.process_group(0).current_dir("/");
    unshare.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = unshare.spawn().map_err(failed)?;
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        BufReader::new(output).read_line(&mut line).map_err(failed)?;
    }
    if let (Ok(pid), Some(pipe)) = (line.trim().parse(), child.stdin.take()) {
        return Ok(Keeper { pid, pipe });
    }
    let mut said = String::new();
    if let Some(mut errors) = child.stderr.take() {
        let _ = errors.read_to_string(&mut said);
    }
    let _ = child.wait();
    Err(LabError::Forbidden { said: said.trim().to_owned() })
}
