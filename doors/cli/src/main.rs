//! The `striate` command.
//!
//! One file per command, each with its help, its parsing and its test. A command collects its whole
//! answer and prints it once, so that a failure never leaves half of it; an error is a
//! [`CommandError`] and is reported here, with a hint and the exit status.

mod bench;
mod compare;
mod completions;
mod describe;
mod doctor;
mod document;
mod error;
mod fs;
mod fsck;
mod lab;
mod mount;
mod nc;
mod number;
mod output;
mod picture;
mod probe;
mod quickstart;
mod ranks;
mod replay;
mod report;
mod run;
mod serve;
mod shell;
mod signals;
mod space;
mod stack;
mod table;
mod terminal;
mod time;
mod trace;
mod unfinished;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::error::CommandError;

/// Parallel structured I/O: describe, measure and speed up what programs do with files.
#[derive(Debug, Parser)]
#[command(
    name = "striate",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    after_help = "\
Examples:
  striate quickstart                                   a demonstration
  striate describe 'vector(768, 3KiB, stride=7596)'    show an access pattern
  striate bench strided --block 64 --method all        measure it  striate serve --embedded 4                           try a parallel file system
  striate run -- python3 analyse.py                    count the file operations of a program  striate report traces -o report.html                 analyse a recording  striate mount data view                              the same for all programs that use a directory
  striate doctor                                       what is installed on this machine

Tables are fitted to the terminal, or to COLUMNS; --wide shows them whole, as in files and pipes.
Exit status: 0 success, 1 failure, 2 wrong usage."
)]
struct Cli {
    /// Print one JSON document instead of text
    #[arg(long, global = true)]
    json: bool,

    /// Do not fit tables and paragraphs into the terminal: show every column
    #[arg(long, global = true)]
    wide: bool,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Describe(describe::DescribeArgs),
    Quickstart(quickstart::QuickstartArgs),
    Bench(bench::BenchArgs),
    Serve(serve::ServeArgs),
    Fs(fs::FsArgs),
    Fsck(fsck::FsckArgs),
    Nc(nc::NcArgs),
    Probe(probe::ProbeArgs),
    Lab(lab::LabArgs),
    Run(run::RunArgs),
    Mount(mount::MountArgs),
    Umount(mount::umount::UmountArgs),
    Stack(stack::StackArgs),
    Trace(trace::TraceArgs),
    Report(report::ReportArgs),
    Compare(compare::CompareArgs),
    Replay(replay::ReplayArgs),
    Doctor(doctor::DoctorArgs),
    Completions(completions::CompletionsArgs),
}

fn main() -> ExitCode {
    // All ranks of a job come to the same answer or error; rank 0 prints it.
    let cli = match Cli::try_parse_from(bench::routed(std::env::args_os())) {
        Ok(cli) => cli,
        Err(error) if ranks::is_printing_rank() => error.exit(),
        Err(error) => {
            ranks::wait_for_printing_rank();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    if cli.wide {
        terminal::set_wide();
    }
    let result = match &cli.command {
        Command::Describe(args) => describe::run(args, cli.json),
        Command::Quickstart(args) => quickstart::run(args, cli.json),
        Command::Bench(args) => bench::run(args, cli.json),
        Command::Serve(args) => serve::run(args, cli.json),
        Command::Fs(args) => fs::run(args, cli.json),
        Command::Fsck(args) => fsck::run(args, cli.json),
        Command::Nc(args) => nc::run(args, cli.json),
        Command::Probe(args) => probe::run(args, cli.json),
        // It ends as the program that it runs.
        Command::Run(args) => {
            return run::run(args, cli.json).unwrap_or_else(|error| error.report());
        }
        // Likewise, if it runs one.
        Command::Lab(args) => {
            return lab::run(args, cli.json).unwrap_or_else(|error| error.report());
        }
        Command::Mount(args) => mount::run(args, cli.json),
        Command::Umount(args) => mount::umount::run(args, cli.json),
        Command::Stack(args) => stack::run(args, cli.json),
        Command::Trace(args) => trace::run(args, cli.json),
        Command::Report(args) => report::run(args, cli.json),
        Command::Compare(args) => compare::run(args, cli.json),
        Command::Replay(args) => replay::run(args, cli.json),
        Command::Doctor(args) => doctor::run(args, cli.json),
        Command::Completions(args) => completions::run(args, cli.json),
    };
    result.map_or_else(|error| error.report(), |()| ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn every_command_has_an_example() {
        fn check(command: &clap::Command) {
            for command in command.get_subcommands() {
                let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(help.contains("striate "), "{} has no example", command.get_name());
                check(command);
            }
        }
        let command = super::Cli::command();
        command.clone().debug_assert();
        check(&command);
    }
}
