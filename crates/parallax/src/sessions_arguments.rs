//! `parallax sessions` as it is typed.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use parallax_sdk::export::ExportForm;

/// `parallax sessions`.
#[derive(Debug, Args)]
pub(crate) struct SessionsArguments {
    #[command(subcommand)]
    pub(crate) action: SessionsAction,

    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsAction {
    /// List sessions of all projects, the last used first
    List {
        /// Only of this project
        #[arg(long)]
        here: bool,
        /// Copies below what they are copies of
        #[arg(long)]
        tree: bool,
        /// At most so many
        #[arg(long, value_name = "N", value_parser = above_zero, default_value = "100")]
        limit: usize,
    },
    /// Show what was said in a session
    Show {
        /// Its id or the beginning of it; of this project also its number or `latest`
        session: String,
    },
    /// Find sessions by what was said in them
    Search {
        /// Words that must all be there, the last perhaps only begun; \"so\" as they stand
        #[arg(required = true)]
        words: Vec<String>,
        /// Only in this project
        #[arg(long)]
        here: bool,
        /// At most so many
        #[arg(long, value_name = "N", value_parser = above_zero, default_value = "20")]
        limit: usize,
        /// Make the index anew first
        #[arg(long)]
        rebuild: bool,
    },
    /// Write a session as a document, or all sessions
    Export {
        /// Its id or the beginning of it; of this project also its number or `latest`
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        session: Option<String>,
        /// Export the sessions of all projects, a directory for each project
        #[arg(long, requires = "out")]
        all: bool,
        /// With `--all`: the directory to write to
        #[arg(long, value_name = "DIR", requires = "all", conflicts_with = "output")]
        out: Option<PathBuf>,
        /// The form; without it, as the file's ending says, else Markdown
        #[arg(long, value_enum)]
        format: Option<Form>,
        /// The file, which must not be there; without it, stdout
        #[arg(short = 'f', long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Import a session file of Parallax, Gemini CLI, Claude Code or Codex into this project
    Import {
        /// The file
        file: PathBuf,
    },
    /// Make a copy of a session in this project
    Fork {
        /// Its id or the beginning of it; of this project also its number or `latest`
        session: String,
        /// Only what came before this prompt
        #[arg(long, value_name = "PROMPT")]
        at: Option<u64>,
    },
    /// Move a session to another project, or all of a project that has another folder now
    Move {
        /// The session; without it, all of `--from`
        #[arg(required_unless_present = "from", conflicts_with = "from")]
        session: Option<String>,
        /// The folder as it was
        #[arg(long, value_name = "FOLDER")]
        from: Option<PathBuf>,
        /// The folder; without it, this one
        #[arg(long, value_name = "FOLDER")]
        to: Option<PathBuf>,
    },
    /// Let old sessions of all projects go, as the settings say
    Gc {
        /// Only tell which
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// Markdown
    #[value(alias = "markdown")]
    Md,
    /// One JSON document, which Gemini CLI loads too
    Json,
    /// A journal
    Jsonl,
    /// A page that needs nothing else
    Html,
    /// A transcript as Claude Code keeps it
    Claude,
    /// A rollout as Codex keeps it
    Codex,
    /// A record as Gemini CLI keeps it, with the tokens and the model of each answer
    GeminiJson,
}

impl From<Form> for ExportForm {
    fn from(form: Form) -> Self {
        match form {
            Form::Md => Self::Markdown,
            Form::Json => Self::Json,
            Form::Jsonl => Self::Jsonl,
            Form::Html => Self::Html,
            Form::Claude => Self::Claude,
            Form::Codex => Self::Codex,
            Form::GeminiJson => Self::GeminiJson,
        }
    }
}

fn above_zero(text: &str) -> Result<usize, String> {
    let number = text.trim().parse::<usize>().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "give a number above zero".to_owned())
}
