//! The command finds its library in every layout, says what makes it where it is missing, and
//! 'doctor' tells of both.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod preloaded;

use std::env::consts::ARCH;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use striate_testing::copy_program;

const NAME: &str = "libstriate_preload.so";

/// The command in a place of its own: a hard link if that can be made, as it is large.
fn installed(at: &Path) -> PathBuf {
    fs::create_dir_all(at).unwrap();
    let program = at.join("striate");
    let built = Path::new(env!("CARGO_BIN_EXE_striate"));
    if fs::hard_link(built, &program).is_err() {
        copy_program(built, &program);
    }
    program
}

/// A directory on the file system of the command, so that links can be made.
fn place() -> tempfile::TempDir {
    tempfile::tempdir_in(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap()
}

fn output(program: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).env("NO_COLOR", "1");
    command.env_remove("STRIATE_PRELOAD").env_remove("LD_PRELOAD").output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_library_is_found_in_every_layout() {
    let library = preloaded::library();
    for layout in [
        "bin".to_owned(),
        "lib/striate".to_owned(),
        "lib".to_owned(),
        "lib64/striate".to_owned(),
        "libexec/striate".to_owned(),
        format!("lib/{ARCH}-linux-gnu/striate"),
    ] {
        let prefix = place();
        let program = installed(&prefix.path().join("bin"));
        assert_eq!(output(&program, &["run", "--", "true"]).status.code(), Some(1), "{layout}");
        let directory = prefix.path().join(&layout);
        fs::create_dir_all(&directory).unwrap();
        fs::copy(&library, directory.join(NAME)).unwrap();
        let found = output(&program, &["run", "--", "true"]);
        assert_eq!(found.status.code(), Some(0), "{layout}: {}", stderr(&found));
    }
}

/// A cargo that builds at once: it puts the library where the real one would.
fn stub(directory: &Path, library: &Path) {
    let script = format!(
        "#!/bin/sh\nset -e\nprofile=debug target=\n\
         while [ $# -gt 0 ]; do case $1 in\n\
         --release) profile=release;; --profile) profile=$2; shift;;\n\
         --target-dir) target=$2; shift;; --manifest-path) test -f \"$2\"; shift;;\n\
         esac; shift; done\n\
         mkdir -p \"$target/$profile\"\ncp '{}' \"$target/$profile/{NAME}\"\n",
        library.display()
    );
    let path = directory.join("cargo");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn what_the_hint_says_makes_it_work() {
    let library = preloaded::library();
    let tools = place();
    stub(tools.path(), &library);
    let path = format!("{}:{}", tools.path().display(), std::env::var("PATH").unwrap());
    for layout in ["target/release", "target/debug", "target/fast", "opt/bin", "opt/tools"] {
        let root = place();
        if layout.starts_with("target") {
            fs::create_dir(root.path().join("target")).unwrap();
            fs::write(root.path().join("target/CACHEDIR.TAG"), "").unwrap();
        }
        let program = installed(&root.path().join(layout));
        let missing = output(&program, &["run", "--", "true"]);
        assert_eq!(missing.status.code(), Some(1), "{layout}");
        let complaint = stderr(&missing);
        let hint = complaint.lines().find_map(|line| line.trim().strip_prefix("hint: ")).unwrap();
        assert!(hint.starts_with("cargo build "), "{layout}: {complaint}");
        // The source's own directory is not for tests.
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
        let build = source.join("target");
        let (build, instead) = (build.to_str().unwrap(), root.path().join("built"));
        let instead = instead.display();
        let hint = hint.replace(&format!(" {build} "), &format!(" {instead} "));
        let hint = hint.replace(&format!(" {build}/release/"), &format!(" {instead}/release/"));
        let shell = Command::new("sh").args(["-c", &hint]).env("PATH", &path).output().unwrap();
        assert!(shell.status.success(), "{hint}: {}", stderr(&shell));
        let found = output(&program, &["run", "--", "true"]);
        assert_eq!(found.status.code(), Some(0), "{layout}: {hint}: {}", stderr(&found));
    }
}

#[test]
fn the_doctor_tells_what_is_found_where() {
    preloaded::library();
    let well = preloaded::striate().arg("doctor").output().unwrap();
    let text = String::from_utf8_lossy(&well.stdout).into_owned();
    assert_eq!(well.status.code(), Some(0), "{text}");
    for words in ["preload library", NAME, "a program runs with it", "has everything it needs"] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    let document = preloaded::striate().args(["doctor", "--json"]).output().unwrap();
    let document: Value = serde_json::from_slice(&document.stdout).unwrap();
    let rows = document["rows"].as_array().unwrap();
    let row = |what: &str| rows.iter().find(|row| row["what"] == what).unwrap();
    assert_eq!(row("preload library")["state"], "ok");
    assert_eq!(
        (&row("command")["needed"], &row("FUSE, for mounts")["needed"]),
        (&true.into(), &false.into())
    );

    // Without the library, and with one that is none.
    let prefix = place();
    let program = installed(&prefix.path().join("bin"));
    for wrong in [false, true] {
        if wrong {
            fs::write(prefix.path().join("bin").join(NAME), "no library").unwrap();
        }
        let ill = output(&program, &["doctor"]);
        let text = String::from_utf8_lossy(&ill.stdout).into_owned();
        assert_eq!(ill.status.code(), Some(1), "{text}");
        assert!(text.contains("! missing  preload library"), "{text}");
        assert!(text.contains("cargo build ") && text.contains("cannot work without"), "{text}");
    }
}

/// `cargo build` and `cargo run` without further words make the command and the library.
#[test]
fn one_build_makes_both() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
    let mut metadata = Command::new(cargo);
    metadata.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let found = metadata.arg("--manifest-path").arg(manifest).output().unwrap();
    let found: Value = serde_json::from_slice(&found.stdout).unwrap();
    let members = found["workspace_default_members"].as_array().unwrap();
    let packages = found["packages"].as_array().unwrap();
    let built: Vec<&Value> =
        packages.iter().filter(|package| members.contains(&package["id"])).collect();
    let names: Vec<&str> = built.iter().map(|package| package["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"striate-cli") && names.contains(&"striate-preload"), "{names:?}");
    // Else 'cargo run' would ask which.
    let targets = built.iter().flat_map(|package| package["targets"].as_array().unwrap());
    let programs = targets.filter(|target| target["kind"][0] == "bin").count();
    assert_eq!(programs, 1);
    assert!(built.iter().all(|package| package["default_run"].is_null()));
}
