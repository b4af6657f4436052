//! Runs the tools as processes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use striate_array::Type;

/// Runs a tool that must succeed; returns its output.
pub(crate) fn run<A: AsRef<std::ffi::OsStr>>(tool: impl AsRef<Path>, arguments: &[A]) -> String {
    let tool = tool.as_ref();
    let output = Command::new(tool)
        .args(arguments)
        // Open MPI requires these to run as root, as in containers.
        .envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")])
        .output()
        .unwrap_or_else(|error| panic!("{} cannot be run: {error}", tool.display()));
    let words: Vec<_> = arguments.iter().map(AsRef::as_ref).collect();
    let output_text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{} {words:?}: {}\n{output_text}{}",
        tool.display(),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    output_text
}

/// The text of a path.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The value of a variable or of an attribute (`variable:attribute`) in a file, as a peer reads it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PeerValue {
    pub(crate) file: PathBuf,
    pub(crate) what: String,
    pub(crate) external: Type,
    pub(crate) shape: Vec<u64>,
    /// Bytes in hexadecimal, or digits that are a mask.
    pub(crate) data: String,
}

impl PeerValue {
    fn from_line(line: &str) -> Self {
        let fields: Vec<&str> = line.split('\t').collect();
        let [file, what, external, shape, data] = fields[..] else { panic!("not a value: {line}") };
        let named = |known: &Type| known.name() == external;
        let lens = shape.split(',').filter(|len| !len.is_empty());
        Self {
            file: file.into(),
            what: what.into(),
            external: Type::ALL.into_iter().find(named).unwrap(),
            shape: lens.map(|len| len.parse().unwrap()).collect(),
            data: data.into(),
        }
    }
}

/// Runs commands of `peer.py`, each with its paths, in one process.
pub(crate) fn ask(commands: &[(&str, &[PathBuf])]) -> Vec<PeerValue> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop/peer.py");
    let mut arguments = vec![text(&script)];
    for (number, (command, paths)) in commands.iter().enumerate() {
        if number > 0 {
            arguments.push("--");
        }
        arguments.push(command);
        arguments.extend(paths.iter().map(|path| text(path)));
    }
    run(python(), &arguments).lines().map(PeerValue::from_line).collect()
}

/// An interpreter with netCDF4, xarray and dask: `STRIATE_PYTHON`, or a virtual environment in the
/// target directory, which is created when it is first needed.
pub(crate) fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| {
        if let Some(given) = std::env::var_os("STRIATE_PYTHON") {
            return given.into();
        }
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let home = target.join("python");
        let python = home.join("bin/python");
        let has_both = |python: &Path| {
            Command::new(python).args(["-c", "import netCDF4, xarray, dask"]).output()
        };
        if !has_both(&python).is_ok_and(|output| output.status.success()) {
            run("python3", &["-m", "venv", text(&home)]);
            let install = ["-m", "pip", "install", "--quiet", "netCDF4", "xarray", "dask"];
            run(&python, &install);
        }
        python
    })
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The numbers that `ncdump` or `ncmpidump` prints for a variable; `None` for a fill value.
pub(crate) fn printed(dump: &str, variable: &str) -> Vec<Option<f64>> {
    let begin = dump.find(&format!("\n {variable} =")).unwrap_or_else(|| panic!("{dump}"));
    let list = &dump[begin..];
    let list = &list[list.find('=').unwrap() + 1..list.find(';').unwrap()];
    let number = |text: &str| match text.trim() {
        "_" => None,
        "" => panic!("{list}"),
        number => Some(number.trim_end_matches(['f', 'b', 's', 'U', 'L']).parse().unwrap()),
    };
    list.split(',').map(number).collect()
}

/// The text that `ncdump` or `ncmpidump` prints for a variable.
pub(crate) fn printed_text(dump: &str, variable: &str) -> String {
    let begin = dump.find(&format!("\n {variable} =")).unwrap_or_else(|| panic!("{dump}"));
    let list = &dump[begin..];
    let list = &list[..list.find(';').unwrap()];
    list.split('"').skip(1).step_by(2).collect()
}

/// Asserts that `ncvalidator` accepts a file.
pub(crate) fn assert_valid(path: &Path) {
    let output_text = run("ncvalidator", &[path]);
    assert!(output_text.contains("is a valid NetCDF"), "{output_text}");
    let bytes = std::fs::read(path).unwrap();
    assert_eq!(striate_array::format::validate(&bytes, bytes.len() as u64), []);
}
