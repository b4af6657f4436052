//! [`Moto`]: an S3 server of another project, on loopback.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A server with the bucket `tests`, which checks keys and signatures; killed when it is dropped.
///
/// It needs a python that has moto and boto3: `STRIATE_PYTHON`, or `python3`.
#[derive(Debug)]
pub struct Moto {
    process: Child,
    /// Its address, as a URL.
    pub endpoint: String,
    /// The id of a key that may do everything.
    pub id: String,
    /// The secret of that key.
    pub secret: String,
}

impl Moto {
    /// Starts one at a port of loopback; 0 is any.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn start(port: u16) -> Self {
        let python = std::env::var_os("STRIATE_PYTHON").unwrap_or_else(|| "python3".into());
        let process = Command::new(python)
            .args(["-c", include_str!("moto/server.py"), &port.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut process = process.expect("a python with moto: STRIATE_PYTHON");
        let mut line = String::new();
        let output = process.stdout.take().expect("its output is a pipe");
        BufReader::new(output).read_line(&mut line).expect("it says where it is");
        let mut words = line.split_whitespace().map(str::to_owned);
        let mut word = || words.next().expect("the server starts: is moto installed?");
        Self { endpoint: word(), id: word(), secret: word(), process }
    }

    /// The variables by which programs reach it.
    pub fn variables(&self) -> [(String, String); 4] {
        self.variables_with(&self.id, &self.secret)
    }

    /// The variables of somebody else.
    pub fn variables_with(&self, id: &str, secret: &str) -> [(String, String); 4] {
        [
            ("AWS_ENDPOINT_URL", &*self.endpoint),
            ("AWS_ACCESS_KEY_ID", id),
            ("AWS_SECRET_ACCESS_KEY", secret),
            ("AWS_REGION", "us-east-1"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
    }

    /// Ends it at once, as a failure of its machine would.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        self.kill();
    }
}
