//! A terminal that runs the program in a test world, driven as by a user.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use testkit::pty::{Answers, Key, ProgramExit, Setup, Terminal};

use crate::support::{LIMIT, PROGRAM, World};

/// How the program is started.
#[derive(Clone)]
pub struct StartOptions<'a> {
    pub size: (u16, u16),
    pub arguments: &'a [&'a str],
    /// Variables to set or to remove.
    pub environment: Vec<(&'a str, Option<&'a str>)>,
    pub answers: Answers,
}

impl Default for StartOptions<'_> {
    fn default() -> Self {
        Self { size: (80, 24), arguments: &[], environment: Vec::new(), answers: Answers::modern() }
    }
}

impl<'a> StartOptions<'a> {
    pub fn sized(columns: u16, rows: u16) -> Self {
        Self { size: (columns, rows), ..Self::default() }
    }

    pub fn with_variable(mut self, name: &'a str, value: &'a str) -> Self {
        self.environment.push((name, Some(value)));
        self
    }

    pub fn without_variable(mut self, name: &'a str) -> Self {
        self.environment.push((name, None));
        self
    }

    pub fn arguments(mut self, arguments: &'a [&'a str]) -> Self {
        self.arguments = arguments;
        self
    }

    pub fn with_answers(mut self, answers: Answers) -> Self {
        self.answers = answers;
        self
    }
}

/// The program in a terminal.
pub struct TerminalDriver {
    pub terminal: Terminal,
    pub world: World,
}

impl TerminalDriver {
    /// Starts it with a script and waits for the composer.
    pub fn ready(script: &str) -> Self {
        Self::start_in(World::new(script), &StartOptions::default())
    }

    /// Starts it and waits for the composer.
    pub fn start_in(world: World, start: &StartOptions<'_>) -> Self {
        let seat = Self::started(world, start);
        seat.wait_for_text(COMPOSER);
        seat
    }

    /// Starts it.
    pub fn started(world: World, start: &StartOptions<'_>) -> Self {
        Self::running(world, Path::new(PROGRAM), start.arguments, start)
    }

    /// Starts another program instead, such as a shell that starts it.
    pub fn running(
        world: World,
        program: &Path,
        arguments: &[&str],
        start: &StartOptions<'_>,
    ) -> Self {
        let terminal = terminal(&world, program, arguments, start);
        Self { terminal, world }
    }

    /// Starts it in a world with other processes.
    pub fn terminal(world: &World, start: &StartOptions<'_>) -> Terminal {
        terminal(world, Path::new(PROGRAM), start.arguments, start)
    }

    // --- input

    pub fn type_text(&self, text: &str) {
        self.terminal.text(text).expect("the program listens");
    }

    pub fn press(&self, key: Key) {
        self.terminal.key(key).expect("the program listens");
    }

    /// Types a prompt and sends it.
    pub fn prompts(&self, text: &str) {
        self.type_text(text);
        self.wait_for_text(text);
        self.press(Key::Enter);
    }

    /// Waits until a request accepts keys: in the first half second it ignores them.
    pub fn wait_for_request_delay(&self) {
        std::thread::sleep(std::time::Duration::from_millis(700));
    }

    // --- output

    /// Waits for a text in the window.
    #[track_caller]
    pub fn wait_for_text(&self, text: &str) {
        self.ok(self.terminal.wait_for(text));
    }

    /// Waits until a text is gone from the window.
    #[track_caller]
    pub fn wait_until_gone(&self, text: &str) {
        self.ok(self.terminal.wait_until_gone(text));
    }

    /// Waits until the window title shows that the agent is idle.
    #[track_caller]
    pub fn is_idle(&self) {
        self.ok(self
            .terminal
            .wait("end of the turn", |emulator| emulator.title().contains("Ready")));
    }

    /// Waits for a text in the window or the scrollback.
    #[track_caller]
    pub fn has_seen(&self, text: &str) {
        let seen = self.terminal.wait(&format!("`{text}` so far"), |emulator| {
            emulator.lines().iter().any(|line| line.contains(text))
        });
        self.ok(seen);
    }

    #[track_caller]
    fn ok(&self, waited: Result<(), String>) {
        if let Err(problem) = waited {
            let violations = self.world.server.violations().join("\n");
            panic!("{problem}\n{violations}");
        }
    }

    /// Returns the window.
    pub fn window(&self) -> String {
        self.terminal.with_emulator(testkit::pty::Emulator::window)
    }

    /// Returns scrollback and window as lines.
    pub fn lines(&self) -> Vec<String> {
        self.terminal.with_emulator(testkit::pty::Emulator::lines)
    }

    /// Waits until the program ends.
    #[track_caller]
    pub fn ends(&self) -> ProgramExit {
        self.terminal.wait_end().unwrap_or_else(|problem| panic!("{problem}"))
    }

    /// Waits until the output is stable, before a snapshot.
    pub fn wait_until_stable(&self) {
        self.terminal.settle(Duration::from_millis(250));
    }
}

/// The placeholder of the empty composer.
pub const COMPOSER: &str = "Type your message";

fn terminal(
    world: &World,
    program: &Path,
    arguments: &[&str],
    start: &StartOptions<'_>,
) -> Terminal {
    let mut environment = world.home.env(&world.server.url());
    for (name, value) in [("TERM", "xterm-256color"), ("COLORTERM", "truecolor")] {
        set(&mut environment, name, Some(value));
    }
    for (name, value) in &start.environment {
        set(&mut environment, name, *value);
    }
    let project = world.home.project();
    let setup = Setup {
        program,
        arguments: arguments.iter().map(OsString::from).collect(),
        environment,
        directory: &project,
        size: start.size,
        answers: start.answers.clone(),
    };
    Terminal::start(&setup, LIMIT).expect("a terminal")
}

fn set(environment: &mut Vec<(OsString, OsString)>, name: &str, value: Option<&str>) {
    environment.retain(|(known, _)| known != name);
    environment.extend(value.map(|value| (name.into(), value.into())));
}
