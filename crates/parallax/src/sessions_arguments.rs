//! The command line of `parallax sessions`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use parallax_sessions::export::ExportFormat;

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
    /// List sessions of all projects, most recently used first
    List {
        /// Only sessions of this project
        #[arg(long)]
        here: bool,
        /// Show copies below their originals
        #[arg(long)]
        tree: bool,
        /// Maximum number of sessions
        #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "100")]
        limit: usize,
    },
    /// Show the transcript of a session
    Show {
        /// Session id or its beginning; for this project also a number or `latest`
        session: String,
    },
    /// Search the transcripts of all sessions
    Search {
        /// Words that must all occur; the last one may be incomplete; quote a "phrase" to match
        /// it exactly
        #[arg(required = true)]
        words: Vec<String>,
        /// Search only this project
        #[arg(long)]
        here: bool,
        /// Maximum number of results
        #[arg(long, value_name = "N", value_parser = parse_positive, default_value = "20")]
        limit: usize,
        /// Rebuild the index first
        #[arg(long)]
        rebuild: bool,
    },
    /// Export a session, or all sessions
    Export {
        /// Session id or its beginning; for this project also a number or `latest`
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        session: Option<String>,
        /// Export the sessions of all projects, with a directory for each project
        #[arg(long, requires = "out")]
        all: bool,
        /// With `--all`: output directory
        #[arg(long, value_name = "DIR", requires = "all", conflicts_with = "output")]
        out: Option<PathBuf>,
        /// Export format [default: from the file extension, otherwise Markdown]
        #[arg(long, value_enum)]
        format: Option<ExportFormatArgument>,
        /// Output file, which must not exist yet [default: stdout]
        #[arg(short = 'f', long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Import a session file of Parallax, Gemini CLI, Claude Code, or Codex into this
    /// project
    Import {
        /// The file
        file: PathBuf,
    },
    /// Copy a session into this project
    Fork {
        /// Session id or its beginning; for this project also a number or `latest`
        session: String,
        /// Copy only the part before this prompt
        #[arg(long, value_name = "PROMPT")]
        at: Option<u64>,
    },
    /// Move a session to another project, or all sessions of a project whose directory has
    /// moved
    Move {
        /// The session; omit it to move all sessions of `--from`
        #[arg(required_unless_present = "from", conflicts_with = "from")]
        session: Option<String>,
        /// Former directory of the project
        #[arg(long, value_name = "FOLDER")]
        from: Option<PathBuf>,
        /// New directory of the project [default: the current directory]
        #[arg(long, value_name = "FOLDER")]
        to: Option<PathBuf>,
    },
    /// Delete old sessions of all projects according to the retention settings
    Gc {
        /// Only list the sessions that would be deleted
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormatArgument {
    /// Markdown
    #[value(alias = "markdown")]
    Md,
    /// One JSON document, which Gemini CLI can also load
    Json,
    /// A journal, one JSON object per line
    Jsonl,
    /// A self-contained HTML page
    Html,
    /// A Claude Code transcript
    Claude,
    /// A Codex rollout file
    Codex,
    /// A Gemini CLI session record, with the tokens and model of each answer
    GeminiJson,
    /// A trajectory in the Agent Trajectory Interchange Format
    Atif,
}

impl From<ExportFormatArgument> for ExportFormat {
    fn from(form: ExportFormatArgument) -> Self {
        match form {
            ExportFormatArgument::Md => Self::Markdown,
            ExportFormatArgument::Json => Self::Json,
            ExportFormatArgument::Jsonl => Self::Jsonl,
            ExportFormatArgument::Html => Self::Html,
            ExportFormatArgument::Claude => Self::Claude,
            ExportFormatArgument::Codex => Self::Codex,
            ExportFormatArgument::GeminiJson => Self::GeminiJson,
            ExportFormatArgument::Atif => Self::Atif,
        }
    }
}

fn parse_positive(text: &str) -> Result<usize, String> {
    let number = text.trim().parse::<usize>().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "expected a number greater than zero".to_owned())
}
