//! Journals and logs that another user could have planted cause no write: neither by the stage, nor
//! by the end of a run, nor by recovery; and the reason is reported.
//!
//! For the superuser they belong to another user; otherwise only permissions, links and
//! destinations are wrong.

#![allow(clippy::unwrap_used)]

mod name_steps;

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use name_steps::{NamesProgram, PathForm, tree};
use striate_stack::Configuration;
use striate_stages::recover::{RecoveryMode, Report, finish_moves, recover, unpack};

const NOBODY: u32 = 65534;
const MADE: i32 = libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// A directory that files belong to, a fast place, and a file outside that must not be written to.
struct PlantedFiles {
    _all: tempfile::TempDir,
    root: PathBuf,
    fast: PathBuf,
    secret: PathBuf,
    configuration: Configuration,
}

const SECRET: &[u8] = b"of the superuser";

impl PlantedFiles {
    fn new(stage: &str) -> Self {
        let all = tempfile::tempdir().unwrap();
        let top = all.path().canonicalize().unwrap();
        let [root, fast, secret] = ["root", "fast", "secret"].map(|name| top.join(name));
        std::fs::create_dir(&root).unwrap();
        std::fs::create_dir(&fast).unwrap();
        set_mode(&fast, 0o755);
        std::fs::write(&secret, SECRET).unwrap();
        set_mode(&secret, 0o600);
        let configuration = parse(&root, &fast, stage).unwrap();
        Self { _all: all, root, fast, secret, configuration }
    }

    /// A program is killed when it has written a file.
    fn killed(stage: &str) -> Self {
        let places = Self::new(stage);
        let mut program = NamesProgram::new(places.configuration.build().unwrap(), &places.root);
        program.open("x", PathForm::Absolute, MADE, 0o644).unwrap();
        program.write(0, b"planted", None).unwrap();
        if stage == COMBINE {
            program.close(0).unwrap();
        }
        drop(program);
        places
    }

    fn moves(&self) -> PathBuf {
        self.fast.join(".striate-moves")
    }

    /// The file of path-rewrite with this ending.
    fn file(&self, ending: &str) -> PathBuf {
        let names = tree(&self.moves()).into_keys();
        let name = names.into_iter().find(|name| name.ends_with(ending)).unwrap();
        self.moves().join(name)
    }

    /// Changes what the journal says, and its checksum.
    fn forge(&self, from: &str, to: &str) {
        let journal = self.file(".journal");
        let text = std::fs::read_to_string(&journal).unwrap();
        assert!(text.contains(from), "{text}");
        let text = text.replace(from, to);
        let body = text.rsplit_once("end ").unwrap().0;
        let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, body.as_bytes()) as u32;
        std::fs::write(&journal, format!("{body}end {sum:08x}\n")).unwrap();
    }

    /// Neither a recovery nor the end of a run does anything, and both say why.
    fn is_refused(&self, reason: &str) {
        let before = (tree(&self.fast), tree(&self.root));
        let reports = [
            recover(&self.configuration, std::slice::from_ref(&self.root), RecoveryMode::Finish),
            finish_moves(&self.configuration),
        ];
        for report in reports {
            assert!(report.failures() > 0, "{reason}");
            assert!(report.to_string().contains(reason), "{report}");
        }
        self.is_as_before();
        assert_eq!((tree(&self.fast), tree(&self.root)), before, "{reason}");
    }

    fn is_as_before(&self) {
        assert_eq!(std::fs::read(&self.secret).unwrap(), SECRET);
    }

    /// A stack for this place cannot even be built.
    fn is_not_built(&self, reason: &str) {
        let told = parse(&self.root, &self.fast, REWRITE).unwrap_err();
        assert!(told.contains(reason), "{told}");
    }

    fn is_recovered(&self) {
        let report =
            recover(&self.configuration, std::slice::from_ref(&self.root), RecoveryMode::Finish);
        assert_eq!(report.failures(), 0, "{report}");
        assert_eq!(std::fs::read(self.root.join("x")).unwrap(), b"planted");
        assert_eq!(tree(&self.fast).into_keys().collect::<Vec<_>>(), [] as [String; 0]);
    }
}

fn parse(root: &Path, fast: &Path, stage: &str) -> Result<Configuration, String> {
    let text = stage
        .replace("ROOT", &root.display().to_string())
        .replace("FAST", &fast.display().to_string());
    let text = format!("[paths]\ninclude = [\"{}\"]\n{text}", root.display());
    striate_stages::parse_stack(&text).map_err(|error| error.to_string())
}

const REWRITE: &str =
    "[[stage]]\nkind = \"path-rewrite\"\nrules = [{ from = \"ROOT\", to = \"FAST\" }]\n";
const COMBINE: &str = "[[stage]]\nkind = \"combine\"\ndirectory = \"FAST\"\n";

#[test]
fn a_fast_place_that_others_can_write_to_is_not_used() {
    let places = PlantedFiles::killed(REWRITE);
    for mode in [0o777, 0o1777, 0o775] {
        set_mode(&places.fast, mode);
        let reason = format!("can be written by others than its owner (mode {mode:o})");
        places.is_refused(&reason);
        places.is_not_built(&reason);
    }
    set_mode(&places.fast, 0o755);
    set_mode(places.fast.parent().unwrap(), 0o777);
    places.is_not_built("can be written by others than its owner (mode 777)");
    set_mode(places.fast.parent().unwrap(), 0o755);
    set_mode(&places.moves(), 0o755);
    let reason = ".striate-moves is accessible to others than its owner (mode 755)";
    places.is_not_built(reason);
    places.is_refused("is accessible to others than its owner (mode 755); it must have mode 700");
    set_mode(&places.moves(), 0o700);
    places.is_recovered();
}

#[test]
fn a_directory_that_is_a_link_is_not_followed() {
    let places = PlantedFiles::killed(REWRITE);
    let elsewhere = places.fast.join("elsewhere");
    std::fs::rename(places.moves(), &elsewhere).unwrap();
    symlink(&elsewhere, places.moves()).unwrap();
    places.is_not_built(".striate-moves is a symbolic link");
    let report = recover(&places.configuration, &[], RecoveryMode::Finish);
    assert!(report.to_string().contains("is a symbolic link"), "{report}");
    assert_eq!(std::fs::read(places.root.join("x")).unwrap(), b"");
    std::fs::remove_file(places.moves()).unwrap();
    std::fs::rename(elsewhere, places.moves()).unwrap();
    places.is_recovered();
}

#[test]
fn what_somebody_else_owns_is_not_believed() {
    if !is_root() {
        return;
    }
    let reason = "belongs to user 65534, not to the caller (user 0)";
    let places = PlantedFiles::killed(REWRITE);
    for path in [&places.fast, &places.moves()] {
        chown(path, Some(NOBODY), None).unwrap();
        places.is_not_built(reason);
        places.is_refused(reason);
        chown(path, Some(0), None).unwrap();
    }
    for ending in [".lock", ".journal", ".data"] {
        let file = places.file(ending);
        chown(&file, Some(NOBODY), None).unwrap();
        places.is_refused(reason);
        // The stage does not believe it either: a program that opens the file gets none of it.
        let mut program = NamesProgram::new(places.configuration.build().unwrap(), &places.root);
        let _ = program.open("x", PathForm::Absolute, libc::O_RDONLY, 0);
        let _ = program.finish(true);
        assert_eq!(std::fs::read(places.root.join("x")).unwrap(), b"", "{ending}");
        chown(&file, Some(0), None).unwrap();
    }
    places.is_recovered();
}

#[test]
fn journals_with_several_names_and_links_are_not_believed() {
    let places = PlantedFiles::killed(REWRITE);
    for ending in [".lock", ".journal", ".data"] {
        let (file, other) = (places.file(ending), places.fast.join("other"));
        std::fs::hard_link(&file, &other).unwrap();
        places.is_refused("has 2 names");
        std::fs::remove_file(&other).unwrap();
        set_mode(&file, 0o666);
        if ending != ".data" {
            places.is_refused("can be written by others than its owner (mode 666)");
        }
        set_mode(&file, 0o600);
    }
    let (data, kept) = (places.file(".data"), places.fast.join("kept"));
    std::fs::rename(&data, &kept).unwrap();
    symlink(&places.secret, &data).unwrap();
    places.is_refused("is not a regular file");
    std::fs::remove_file(&data).unwrap();
    std::fs::rename(&kept, &data).unwrap();
    set_mode(&data, 0o644);
    places.is_recovered();
}

#[test]
fn files_go_only_to_where_a_rule_is_for() {
    let places = PlantedFiles::killed(REWRITE);
    let (root, secret) = (places.root.display().to_string(), places.secret.display().to_string());
    let before = format!("destination {root}/x");
    let reason = "it is not below a directory that the stack has a rule for";
    // There is nothing there, something is, it is said in several ways, and a link leads out.
    std::fs::create_dir(places.root.join("d")).unwrap();
    symlink(places.root.parent().unwrap(), places.root.join("out")).unwrap();
    for forged in [
        format!("destination {secret}"),
        format!("destination {secret}-new"),
        format!("destination {root}/../secret"),
        format!("destination {root}/d/../../secret-new"),
        format!("destination {root}/out/secret-new"),
        format!("destination {root}-sibling/../secret-new"),
        format!("{before}\nmaybe {secret}-new"),
    ] {
        if forged.contains("maybe") {
            // The name that it had no longer exists.
            std::fs::rename(places.root.join("x"), places.root.join("y")).unwrap();
        }
        std::fs::create_dir_all(format!("{root}-sibling")).unwrap();
        places.forge(&before, &forged);
        places.is_refused(reason);
        assert!(!places.secret.with_file_name("secret-new").exists());
        places.forge(&forged, &before);
    }
    std::fs::rename(places.root.join("y"), places.root.join("x")).unwrap();
    places.is_recovered();
}

#[test]
fn files_that_leave_what_a_rule_is_for_go_home_first() {
    let places = PlantedFiles::new(REWRITE);
    let outside = places.root.with_file_name("outside");
    std::fs::create_dir(&outside).unwrap();
    let mut program = NamesProgram::new(places.configuration.build().unwrap(), &places.root);
    program.open("x", PathForm::Absolute, MADE, 0o644).unwrap();
    program.write(0, b"planted", None).unwrap();
    let renamed = program.step(&name_steps::NameStep::Rename("x".into(), "../outside/y".into(), 0));
    assert_eq!(renamed, name_steps::Observed::Number(0));
    // As if it was killed: there is nothing to be recovered.
    drop(program);
    assert_eq!(std::fs::read(outside.join("y")).unwrap(), b"planted");
    let report = recover(&places.configuration, &[], RecoveryMode::Finish);
    assert_eq!((report.files.len(), report.failures()), (0, 0), "{report}");
    // A link that leads out: the file is made there.
    symlink(&outside, places.root.join("link")).unwrap();
    let mut program = NamesProgram::new(places.configuration.build().unwrap(), &places.root);
    program.open("link/z", PathForm::Absolute, MADE, 0o644).unwrap();
    program.write(0, b"there", None).unwrap();
    assert_eq!(std::fs::read(outside.join("z")).unwrap(), b"there");
    program.finish(true).unwrap();
}

fn is_refused_as_log(places: &PlantedFiles, report: &Report, reason: &str) {
    assert_eq!((report.files.len(), report.failures()), (0, 1), "{report}");
    assert!(report.to_string().contains(reason), "{report}");
    assert!(!places.root.join("x").exists());
}

#[test]
fn logs_that_others_could_have_written_are_not_believed() {
    let places = PlantedFiles::killed(COMBINE);
    let names: Vec<_> = tree(&places.fast).into_keys().collect();
    let log = places.fast.join(&names[0]);
    // Beside files, and where the stack says.
    let moved = places.root.join(&names[0]);
    let refused = |reason: &str| {
        let report = recover(&places.configuration, &[], RecoveryMode::Finish);
        is_refused_as_log(&places, &report, reason);
        std::fs::rename(&log, &moved).unwrap();
        let report = recover(
            &places.configuration,
            std::slice::from_ref(&places.root),
            RecoveryMode::Finish,
        );
        is_refused_as_log(&places, &report, reason);
        std::fs::rename(&moved, &log).unwrap();
        // Nor does unpacking bring its files to where it says.
        let told = unpack(&log, None, RecoveryMode::Finish).unwrap_err().to_string();
        assert!(told.contains(reason), "{told}");
    };
    set_mode(&log, 0o622);
    refused("can be written by others than its owner (mode 622)");
    set_mode(&log, 0o600);
    let other = places.fast.join("other");
    std::fs::hard_link(&log, &other).unwrap();
    refused("has 2 names");
    std::fs::remove_file(&other).unwrap();
    std::fs::rename(&log, &other).unwrap();
    symlink(&other, &log).unwrap();
    refused("is a symbolic link");
    std::fs::remove_file(&log).unwrap();
    let mode = rustix::fs::Mode::RUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &log, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    refused("is not a regular file");
    std::fs::remove_file(&log).unwrap();
    std::fs::rename(&other, &log).unwrap();
    if is_root() {
        chown(&log, Some(NOBODY), None).unwrap();
        refused("belongs to user 65534, not to the caller (user 0)");
        // A caller that chooses the directory may have them.
        let into = places.fast.join("into");
        let unpacked = unpack(&log, Some(&into), RecoveryMode::Finish).unwrap();
        assert_eq!((unpacked.files.len(), unpacked.failures()), (1, 0), "{unpacked}");
        let name = places.root.join("x");
        let name = name.strip_prefix("/").unwrap();
        assert_eq!(std::fs::read(into.join(name)).unwrap(), b"planted");
        chown(&log, Some(0), None).unwrap();
        std::fs::remove_dir_all(&into).unwrap();
        // But not by a link that is there: neither one on the way, nor the last name.
        let first = name.iter().next().unwrap();
        std::fs::create_dir(&into).unwrap();
        symlink("/", into.join(first)).unwrap();
        let unpacked = unpack(&log, Some(&into), RecoveryMode::Finish).unwrap();
        assert_eq!(unpacked.failures(), 1, "{unpacked}");
        std::fs::remove_dir_all(&into).unwrap();
    }
    // The directory has become a link to another one.
    let real = places.root.with_file_name("real");
    std::fs::rename(&places.root, &real).unwrap();
    symlink(&real, &places.root).unwrap();
    let report = recover(&places.configuration, &[], RecoveryMode::Finish);
    assert_eq!(report.failures(), 1, "{report}");
    assert!(report.to_string().contains("leads to"), "{report}");
    assert!(!real.join("x").exists());
    std::fs::remove_file(&places.root).unwrap();
    std::fs::rename(&real, &places.root).unwrap();
    places.is_recovered();
}
