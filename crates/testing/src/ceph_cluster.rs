//! [`CephCluster`]: a Ceph cluster in memory, on loopback, one for each test program.
//!
//! One monitor and three OSDs of the installed Ceph. A shell script starts them, waits for the end
//! of a pipe that this program holds, then ends them and removes their files: also if the program
//! is killed. The tests of a program share it, as each cluster takes about three seconds to start.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A cluster that lives as long as this, or the program.
#[derive(Debug)]
pub struct CephCluster {
    directory: PathBuf,
    keeper: Child,
}

impl Drop for CephCluster {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

impl CephCluster {
    /// The cluster of this test program. It has the pools `data` and `other`, with two replicas,
    /// one of which is enough; and the users `admin` and `reader`, of whom the latter may not
    /// write.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<CephCluster> = OnceLock::new();
        SHARED.get_or_init(Self::start)
    }

    /// One more cluster, for a test that damages it.
    pub fn start() -> Self {
        // Another program may take the port before the monitor does.
        let mut failures = String::new();
        for _ in 0..3 {
            match Self::attempt() {
                Ok(cluster) => return cluster,
                Err(failure) => failures.push_str(&failure),
            }
        }
        panic!(
            "no Ceph cluster could be started (Debian: ceph-mon ceph-osd ceph-common):\n{failures}"
        );
    }

    fn attempt() -> Result<Self, String> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let name = format!("striate-ceph-{}-{port}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir(&directory).unwrap();
        let mut keeper = Command::new("sh")
            .args(["-c", include_str!("ceph_cluster.sh"), "ceph_cluster.sh"])
            .arg(&directory)
            .arg(port.to_string())
            // An interrupt of the terminal ends the tests first, and the cluster by them.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(keeper.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        if line == "ready\n" {
            return Ok(Self { directory, keeper });
        }
        drop(keeper.stdin.take());
        output.read_to_string(&mut line).unwrap();
        keeper.wait().unwrap();
        let _ = fs::remove_dir_all(directory);
        Err(line)
    }

    /// The configuration for clients: `CEPH_CONF`.
    pub fn configuration(&self) -> PathBuf {
        self.directory.join("ceph.conf")
    }

    /// A temporary directory, which is removed with the cluster.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What a command of Ceph prints, as the administrator.
    pub fn ceph(&self, command: &str, arguments: &[&str]) -> String {
        let mut ceph = Command::new(command);
        ceph.env_remove("CEPH_ARGS").env("CEPH_CONF", self.configuration()).args(arguments);
        let output = ceph.output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command} {arguments:?}: {text}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Kills a daemon, such as `osd.1` or `mon.a`.
    pub fn kill(&self, daemon: &str) {
        let pid = fs::read_to_string(self.directory.join(format!("{daemon}.pid"))).unwrap();
        let killed = Command::new("kill").args(["-KILL", pid.trim()]).status().unwrap();
        assert!(killed.success());
    }

    /// Waits until so many OSDs are up.
    pub fn wait_for_osds(&self, count: usize) {
        let begin = Instant::now();
        let up = format!("{count} up");
        while !self.ceph("ceph", &["osd", "stat"]).contains(&up) {
            assert!(begin.elapsed() < Duration::from_secs(60), "there are not {count} OSDs");
            sleep(Duration::from_millis(100));
        }
    }
}
