//! [`STACKS`]: stacks that change nothing that a program observes.

use std::fmt::Write as _;
use std::path::Path;

macro_rules! path_rewrite {
    ($more:literal) => {
        concat!(
            "[[stage]]\nkind = \"path-rewrite\"\n",
            "rules = [{ from = \"SEEN/work\", to = \"BESIDE/fast\" }]\n",
            $more
        )
    };
}

/// A stack by name.
#[derive(Clone, Copy, Debug)]
pub struct Stack {
    /// What it is called in messages.
    pub name: &'static str,
    /// Its stages; `None` is without Striate. `SEEN`, `FAST` and `BESIDE` stand for directories.
    stages: Option<&'static str>,
    /// Whether it says which files it is for, or takes what it gets without saying.
    everywhere: bool,
}

impl Stack {
    /// Without Striate.
    pub const NATIVE: Self = Self { name: "native", stages: None, everywhere: false };

    const fn of(name: &'static str, stages: &'static str) -> Self {
        Self { name, stages: Some(stages), everywhere: false }
    }

    /// Files stay in containers, which have to be unpacked afterwards.
    pub const CONTAINER: Self = Self::of(
        "container",
        "[[stage]]\nkind = \"combine\"\nunpack = false\ndirectory = \"BESIDE/kept\"\n",
    );

    /// Files that are there go to the fast place as well …
    pub const EXISTING: Self =
        Self::of("path-rewrite, existing", path_rewrite!("existing = true\n"));

    /// … which is on the same file system.
    pub const EXISTING_BESIDE: Self = Self::of(
        "path-rewrite, existing, one file system",
        "[[stage]]\nkind = \"path-rewrite\"\nexisting = true\n\
         rules = [{ from = \"SEEN/work\", to = \"SEEN/fast\" }]\n",
    );

    /// The stack of a name.
    pub fn named(name: &str) -> &'static Self {
        let others = [&Self::CONTAINER, &Self::EXISTING, &Self::EXISTING_BESIDE];
        STACKS.iter().chain(others).find(|stack| stack.name == name).expect("a stack of this name")
    }

    /// Its configuration: for what is below `seen`, with a place beside it that stages do not see.
    /// Programs work in `seen/work`; `beside/fast` and `beside/run` have to be there.
    pub fn text(&self, seen: &Path, beside: &Path) -> Option<String> {
        let [seen, beside] = [seen, beside].map(|path| path.to_str().unwrap());
        let stages = self.stages?.replace("SEEN", seen).replace("BESIDE", beside);
        let mut text = String::new();
        if !self.everywhere {
            writeln!(text, "[paths]\ninclude = [\"{seen}\"]\n").unwrap();
        }
        Some(text + &stages)
    }
}

const COUNT: &str = "[[stage]]\nkind = \"count\"\n";
const TRACE: &str = "[[stage]]\nkind = \"trace\"\ndirectory = \"BESIDE/run\"\n";
/// All of them. Sizes are small, so that what happens at their limits happens.
pub const STACKS: &[Stack] = &[
    Stack::of("no stages", ""),
    Stack::of("count", COUNT),
    Stack { everywhere: true, ..Stack::of("count everywhere", COUNT) },
    Stack::of("trace", TRACE),
    Stack::of("write-back", "[[stage]]\nkind = \"write-back\"\n"),
    Stack::of(
        "write-back, small",
        "[[stage]]\nkind = \"write-back\"\nblock = \"4KiB\"\nmemory = \"64KiB\"\n",
    ),
    Stack::of("read-ahead", "[[stage]]\nkind = \"read-ahead\"\n"),
    Stack::of("read-ahead, small", "[[stage]]\nkind = \"read-ahead\"\nwindow = \"8KiB\"\n"),
    Stack::of("combine", "[[stage]]\nkind = \"combine\"\n"),
    Stack::of("path-rewrite", path_rewrite!("")),
    Stack::of("path-rewrite, background", path_rewrite!("background = true\n")),
    Stack::of("align", "[[stage]]\nkind = \"align\"\nstripe = \"4KiB\"\n"),
    Stack::of("throttle", "[[stage]]\nkind = \"throttle\"\nlatency = \"5us\"\n"),
    Stack::of(
        "full",
        "\
[[stage]]
kind = \"count\"
[[stage]]
kind = \"trace\"
directory = \"BESIDE/run\"
[[stage]]
kind = \"combine\"
[[stage]]
kind = \"write-back\"
block = \"16KiB\"
[[stage]]
kind = \"read-ahead\"
[[stage]]
kind = \"align\"
stripe = \"8KiB\"
[[stage]]
kind = \"throttle\"
latency = \"2us\"
[[stage]]
kind = \"count\"
",
    ),
];
