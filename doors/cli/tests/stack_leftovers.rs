//! `striate stack recover` and `striate stack unpack`, after real programs that were killed or have
//! left containers; and a short `striate bench insitu`.
//!
//! The program is this one, started again: see [`the_program`].
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod preloaded;

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use preloaded::{library, striate};
use serde_json::Value;

fn done(command: &mut Command) -> Output {
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What the program does: steps with a semicolon after each but the last.
const STEPS: &str = "STRIATE_TEST_STEPS";

/// Not a test, but the program that the tests run.
#[test]
fn the_program() {
    let Ok(steps) = std::env::var(STEPS) else { return };
    let mut open = Vec::new();
    for step in steps.split("; ") {
        let words: Vec<&str> = step.splitn(3, ' ').collect();
        match words[..] {
            ["write", name, text] => fs::write(name, text).unwrap(),
            ["begin", name, text] => {
                let mut file = fs::File::create(name).unwrap();
                file.write_all(text.as_bytes()).unwrap();
                open.push(file);
            }
            ["mkdir", name] => fs::create_dir(name).unwrap(),
            ["tell", name] => println!("{TOLD}{}", fs::read_to_string(name).unwrap()),
            ["wait"] => drop(std::io::stdin().read_line(&mut String::new()).unwrap()),
            ["die"] => {
                let own = rustix::process::getpid();
                rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
            }
            _ => panic!("no step: {step}"),
        }
    }
}

/// What stands before what the program tells.
const TOLD: &str = "\ntold: ";

/// What the program has told.
fn words_of(output: &Output) -> String {
    let text = text(&output.stdout);
    text.lines().filter_map(|line| line.strip_prefix(TOLD.trim_start())).collect()
}

/// A place with directories, and a stack for what is below `work`.
struct StackDirectories {
    root: tempfile::TempDir,
}

impl StackDirectories {
    fn new(stages: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        for name in ["work", "fast", "logs"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        let place = Self { root };
        let stages = stages
            .replace("ROOT", &place.root.path().canonicalize().unwrap().display().to_string());
        let work = place.path("work").display().to_string();
        let text = format!("[paths]\ninclude = [\"{work}\"]\n[[stage]]\n{stages}");
        fs::write(place.path("stack.toml"), text).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(name)
    }

    fn names(&self, directory: &str) -> Vec<String> {
        let list = fs::read_dir(self.path(directory)).unwrap();
        let mut names: Vec<String> =
            list.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// The program under the stack, where it works.
    fn program(&self, steps: &str) -> Command {
        let mut command = striate();
        command.args(["run", "--quiet", "--stack"]).arg(self.path("stack.toml")).arg("--");
        command.arg(std::env::current_exe().unwrap());
        self.acting(command, steps)
    }

    fn acting(&self, mut command: Command, steps: &str) -> Command {
        command.args(["--exact", "the_program", "--nocapture"]);
        command.env(STEPS, steps).current_dir(self.path("work"));
        command
    }

    /// The same with the library alone: no command recovers what it leaves.
    fn run_alone(&self, steps: &str) -> Output {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env("LD_PRELOAD", library());
        command.env("STRIATE_STACK", self.path("stack.toml"));
        done(&mut self.acting(command, steps))
    }

    fn run(&self, steps: &str) -> Output {
        done(&mut self.program(steps))
    }

    /// `striate stack recover`, and what it says.
    fn recover(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let mut command = striate();
        command.args(["stack", "recover"]).args(arguments).arg(self.path("stack.toml"));
        let output = done(&mut command);
        (output.status.code(), text(&output.stdout))
    }

    fn unpack(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let mut command = striate();
        command.args(["stack", "unpack"]).args(arguments).arg(self.path("logs"));
        let output = done(&mut command);
        (output.status.code(), text(&output.stdout))
    }
}

fn rows(document: &str) -> Vec<Value> {
    let document: Value = serde_json::from_str(document).unwrap();
    document["rows"].as_array().unwrap().clone()
}

const NOTHING: (Option<i32>, &str) = (Some(0), "Nothing was left behind.\n");

/// Makes four files and is killed; a fifth is not closed.
const KILLED: &str = "write f1 content 1; write f2 content 2; write f3 content 3; \
    mkdir below; write below/f deeper; begin open not closed; die";

const COMBINE: &str = "kind = \"combine\"\ndirectory = \"ROOT/logs\"\n";

#[test]
fn files_of_a_killed_program_come_out_of_the_log() {
    let place = StackDirectories::new(COMBINE);
    let output = place.run(KILLED);
    assert_eq!(output.status.code(), Some(137), "{}", text(&output.stderr));
    assert_eq!(place.names("work"), ["below"], "they are held");
    assert_eq!(place.names("logs").len(), 1);

    let (status, list) = place.recover(&["--list"]);
    let log = place.path("logs").join(&place.names("logs")[0]);
    let line = |name: &str, bytes| {
        format!("{}: {bytes} bytes in {}", place.path(name).display(), log.display())
    };
    let expected = ["work/f1", "work/f2", "work/f3"]
        .map(|name| line(name, 9))
        .into_iter()
        .chain([line("work/below/f", 6)]);
    assert_eq!(
        (status, list.lines().map(str::to_owned).collect()),
        (Some(0), expected.collect::<Vec<_>>())
    );
    assert_eq!(place.names("work"), ["below"], "nothing was done");
    let found = rows(&place.recover(&["--list", "--json"]).1);
    assert_eq!(found.len(), 4);
    assert_eq!(found[0]["state"], "found");
    assert_eq!(found[0]["destination"], place.path("work/f1").to_str().unwrap());
    assert_eq!((&found[0]["bytes"], &found[0]["closed"]), (&9.into(), &true.into()));

    let (status, told) = place.recover(&[]);
    assert_eq!((status, told.lines().count()), (Some(0), 4), "{told}");
    assert!(told.contains("work/f2: 9 bytes\n"), "{told}");
    for n in 1..=3 {
        let content = fs::read_to_string(place.path(&format!("work/f{n}"))).unwrap();
        assert_eq!(content, format!("content {n}"));
    }
    assert_eq!(fs::read_to_string(place.path("work/below/f")).unwrap(), "deeper");
    assert_eq!(place.names("work"), ["below", "f1", "f2", "f3"], "what was not closed is lost");
    assert!(place.names("logs").is_empty());
    assert_eq!(place.recover(&[]), (NOTHING.0, NOTHING.1.to_owned()));
}

#[test]
fn logs_beside_the_files_are_found_where_one_says() {
    let place = StackDirectories::new("kind = \"combine\"\n");
    assert_eq!(place.run(KILLED).status.code(), Some(137));
    // Without a directory it is not known where logs are.
    assert_eq!(place.recover(&[]), (NOTHING.0, NOTHING.1.to_owned()));
    let mut command = striate();
    command.args(["stack", "recover"]).args([place.path("stack.toml"), place.path("work")]);
    let output = done(&mut command);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout).lines().count(), 4);
    assert_eq!(place.names("work"), ["below", "f1", "f2", "f3"]);
    assert_eq!(fs::read_to_string(place.path("work/f3")).unwrap(), "content 3");
}

#[test]
fn what_cannot_be_brought_home_is_told_and_kept() {
    let place = StackDirectories::new(COMBINE);
    assert_eq!(place.run(KILLED).status.code(), Some(137));
    fs::remove_dir(place.path("work/below")).unwrap();
    let (status, told) = place.recover(&["--json"]);
    assert_ne!(status, Some(0));
    let states: Vec<_> = rows(&told).iter().map(|row| row["state"].clone()).collect();
    assert_eq!(states, ["finished", "finished", "finished", "failed"]);
    assert!(rows(&told)[3]["error"].as_str().unwrap().contains("No such file"), "{told}");
    fs::create_dir(place.path("work/below")).unwrap();
    let (status, told) = place.recover(&[]);
    assert_eq!(status, Some(0));
    assert_eq!(told, format!("{}: 6 bytes\n", place.path("work/below/f").display()));
    assert!(place.names("logs").is_empty());
}

#[test]
fn what_belongs_to_a_running_program_is_left_alone() {
    let place = StackDirectories::new(COMBINE);
    let mut program = place.program("write f held; wait; write g after");
    let mut child = program.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(100);
    while !place.recover(&["--list"]).1.contains("in use") {
        assert!(Instant::now() < until, "there is no log");
        std::thread::sleep(Duration::from_millis(20));
    }
    let (status, told) = place.recover(&[]);
    assert_eq!((status, told.lines().count()), (Some(0), 1), "{told}");
    child.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(fs::read_to_string(place.path("work/f")).unwrap(), "held");
    assert_eq!(fs::read_to_string(place.path("work/g")).unwrap(), "after");
    assert_eq!(place.recover(&[]), (NOTHING.0, NOTHING.1.to_owned()));
}

#[test]
fn files_at_the_fast_place_come_home() {
    let place = StackDirectories::new(
        "kind = \"path-rewrite\"\nrules = [{ from = \"ROOT/work\", to = \"ROOT/fast\" }]\n",
    );
    let steps = "write closed moved; begin open not closed; die";
    assert_eq!(place.run_alone(steps).status.code(), None);
    assert_eq!(fs::read_to_string(place.path("work/closed")).unwrap(), "moved");
    let (status, told) = place.recover(&["--list"]);
    assert_eq!((status, told.lines().count()), (Some(0), 1), "{told}");
    assert!(told.ends_with("(was not closed)\n"), "{told}");
    assert_eq!(place.recover(&[]).0, Some(0));
    assert_eq!(fs::read_to_string(place.path("work/open")).unwrap(), "not closed");
    assert_eq!(place.recover(&[]), (NOTHING.0, NOTHING.1.to_owned()));
    assert_eq!(place.names("work"), ["closed", "open"]);
    // `striate run` does it by itself.
    assert_eq!(place.run(&steps.replace("open", "too")).status.code(), Some(137));
    assert_eq!(place.recover(&[]), (NOTHING.0, NOTHING.1.to_owned()));
    assert_eq!(fs::read_to_string(place.path("work/too")).unwrap(), "not closed");
}

/// The command that a text tells, run by a shell as it stands there.
fn paste(told: &str) -> Output {
    let command = told.lines().find(|line| line.contains("stack recover")).unwrap_or_else(|| {
        panic!("no command in: {told}");
    });
    let mut shell = Command::new("sh");
    // Where it is pasted does not matter.
    done(shell.arg("-c").arg(command.trim()).current_dir("/"))
}

#[test]
fn the_summary_says_what_is_left_and_its_command_brings_it() {
    for (stages, more) in [
        ("kind = \"combine\"\n", &[][..]),
        (COMBINE, &[]),
        ("kind = \"combine\"\n", &["--quiet"]),
        ("kind = \"combine\"\n", &["--json"]),
    ] {
        let place = StackDirectories::new(stages);
        // A name that a shell would take apart.
        let odd = place.path("it's a stack $HOME.toml");
        fs::rename(place.path("stack.toml"), &odd).unwrap();
        let mut command = striate();
        command.args(["run", "--stack"]).arg(&odd).args(more).arg("--");
        command.arg(std::env::current_exe().unwrap());
        let output = done(&mut place.acting(command, KILLED));
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(137), "{told}");
        assert!(told.contains("4 files of combine (33 B) are left in a log: "), "{told}");
        let pasted = paste(&told);
        assert_eq!(pasted.status.code(), Some(0), "{told}{}", text(&pasted.stderr));
        assert_eq!(place.names("work"), ["below", "f1", "f2", "f3"], "{told}");
        assert_eq!(fs::read_to_string(place.path("work/below/f")).unwrap(), "deeper");
        assert!(place.names("logs").is_empty());
    }
    // A program that ends well leaves nothing, and nothing is printed.
    let place = StackDirectories::new("kind = \"combine\"\n");
    let output = place.run("write f1 content");
    assert_eq!(output.status.code(), Some(0));
    assert!(!text(&output.stderr).contains("left"), "{}", text(&output.stderr));
}

#[test]
fn the_summary_says_what_could_not_be_moved() {
    let place = StackDirectories::new(
        "kind = \"path-rewrite\"\nrules = [{ from = \"ROOT/work\", to = \"ROOT/fast\" }]\n",
    );
    let mut command = striate();
    command.args(["run", "--stack"]).arg(place.path("stack.toml")).args(["--", "sh", "-c"]);
    // Another program writes to what stands for the file meanwhile.
    command.arg("\"$0\" --exact the_program --nocapture; env -u LD_PRELOAD sh -c 'echo other > f'");
    command.arg(std::env::current_exe().unwrap());
    command.env(STEPS, "begin f not closed; die").current_dir(place.path("work"));
    let output = done(&mut command);
    let told = text(&output.stderr);
    assert!(told.contains("something else is there now"), "{told}");
    fs::rename(place.path("work/f"), place.path("work/other")).unwrap();
    let pasted = paste(&told);
    assert_eq!(pasted.status.code(), Some(0), "{told}{}", text(&pasted.stdout));
    assert_eq!(fs::read_to_string(place.path("work/f")).unwrap(), "not closed");
    assert_eq!(fs::read_to_string(place.path("work/other")).unwrap(), "other\n");
}

const CONTAINER: &str = "kind = \"combine\"\nunpack = false\ndirectory = \"ROOT/logs\"\n";

#[test]
fn containers_are_unpacked() {
    let place = StackDirectories::new(CONTAINER);
    let output = place.run("write f1 one; write f2 two; write f3 three; write f2 again");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(place.names("work").is_empty());
    let containers = place.names("logs");
    assert!(containers.len() == 1 && containers[0].ends_with(".combined"), "{containers:?}");
    // The next program sees the files.
    let output = place.run("tell f2; write f4 more");
    assert_eq!(words_of(&output), "again", "{}", text(&output.stderr));
    assert_eq!(place.recover(&[]), (NOTHING.0, NOTHING.1.to_owned()), "they are to stay");

    let (status, list) = place.unpack(&["--list"]);
    assert_eq!((status, list.lines().count()), (Some(0), 4), "{list}");
    assert!(list.contains("work/f2: 5 bytes in "), "{list}");
    assert_eq!(rows(&place.unpack(&["--list", "--json"]).1).len(), 4);
    let into = place.path("elsewhere");
    let (status, _) = place.unpack(&["--into", into.to_str().unwrap()]);
    assert_eq!(status, Some(0));
    let below = into.join(place.path("work").strip_prefix("/").unwrap());
    assert_eq!(fs::read_to_string(below.join("f4")).unwrap(), "more");
    assert_eq!(place.names("logs").len(), 2, "they are still there");

    let (status, told) = place.unpack(&[]);
    assert_eq!((status, told.lines().count()), (Some(0), 4), "{told}");
    assert_eq!(place.names("work"), ["f1", "f2", "f3", "f4"]);
    assert_eq!(fs::read_to_string(place.path("work/f2")).unwrap(), "again");
    assert!(place.names("logs").is_empty());
    let output = done(striate().args(["stack", "unpack", "/nowhere"]));
    assert_ne!(output.status.code(), Some(0));
    assert!(text(&output.stderr).contains("cannot read /nowhere"), "{}", text(&output.stderr));
}

#[test]
fn the_log_of_a_killed_program_becomes_a_container() {
    let place = StackDirectories::new(CONTAINER);
    assert_eq!(place.run(KILLED).status.code(), Some(137));
    assert!(place.names("logs")[0].starts_with(".striate-combine-"));
    let (status, told) = place.recover(&[]);
    assert_eq!(status, Some(0), "{told}");
    let containers = place.names("logs");
    assert!(containers.len() == 1 && containers[0].ends_with(".combined"), "{containers:?}");
    let output = place.run("tell f3");
    assert_eq!(words_of(&output), "content 3", "{}", text(&output.stderr));
    assert_eq!(place.unpack(&[]).0, Some(0));
    assert_eq!(place.names("work"), ["below", "f1", "f2", "f3"]);
    assert_eq!(fs::read_to_string(place.path("work/below/f")).unwrap(), "deeper");
}

/// What a benchmark says, not how fast anything is.
#[test]
fn a_short_benchmark_says_what_it_should() {
    let place = tempfile::tempdir().unwrap();
    let [slow, fast] = ["slow", "fast"].map(|name| place.path().join(name));
    for directory in [&slow, &fast] {
        fs::create_dir(directory).unwrap();
    }
    let bench = |case: &str, more: &[&str]| {
        let mut command = striate();
        command.args(["bench", "insitu", "--case", case, "--repeat", "2", "--rounds", "3"]);
        done(command.arg("--dir").arg(&slow).arg("--fast").arg(&fast).args(more))
    };
    let output = bench("1 KiB in order, local", &["--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = document["rows"].as_array().unwrap();
    let ways: Vec<_> = rows.iter().map(|row| row["way"].as_str().unwrap()).collect();
    assert_eq!(ways, ["native", "write-back"]);
    for row in rows {
        assert_eq!(
            (&row["case"], &row["unit"]),
            (&"1 KiB in order, local".into(), &"MiB/s".into())
        );
        assert_eq!((&row["request"], &row["count"]), (&1024.into(), &65_536.into()));
        let samples = row["samples"].as_array().unwrap();
        assert!(samples.len() == 2 && samples.iter().all(|rate| rate.as_f64().unwrap() > 0.0));
    }
    let ratios = document["ratios"].as_array().unwrap();
    assert_eq!(ratios.len(), 1);
    assert_eq!(ratios[0]["name"], "1 KiB in order, local: write-back over native");

    let output = bench("overhead of count", &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(table.starts_with("ns per call more than without"), "{table}");
    for word in ["overhead of count", "plain", "goal", "pwrite"] {
        assert!(table.contains(word), "{word}: {table}");
    }

    let output = bench("no such case", &[]);
    assert_ne!(output.status.code(), Some(0));
    assert!(text(&output.stderr).contains("16 KiB files, 200 µs"), "{}", text(&output.stderr));
    for directory in [&slow, &fast] {
        assert_eq!(fs::read_dir(directory).unwrap().count(), 0, "nothing is left");
    }
}
