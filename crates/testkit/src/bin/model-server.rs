//! `model-server SCRIPT [--port N] [--log FILE] [--strict] [--once] [--forget]`: runs the scripted
//! model server. Prints its URL at startup, and the violations when it is stopped.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use testkit::{ModelServer, Options, Script};

const USAGE: &str =
    "usage: model-server SCRIPT [--port N] [--log FILE] [--strict] [--once] [--forget]
  --port N    listen on this port (default: any free one)
  --log FILE  write every request as one line of JSON
  --strict    answer a request that breaks a rule with status 400
  --once      end when every reply of the script has been used
  --forget    keep no request bodies in memory";

struct ServerArguments {
    script: PathBuf,
    options: Options,
    once: bool,
}

fn arguments() -> Result<ServerArguments, String> {
    let mut words = std::env::args_os().skip(1);
    let mut script = None;
    let mut options = Options::default();
    let mut once = false;
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("--port") => {
                let port = words.next().and_then(|word| word.to_str()?.parse().ok());
                options.port = port.ok_or("`--port` wants a number")?;
            }
            Some("--log") => {
                options.log = Some(words.next().ok_or("`--log` wants a file")?.into());
            }
            Some("--strict") => options.strict = true,
            Some("--once") => once = true,
            Some("--forget") => options.discard_bodies = true,
            Some(flag) if flag.starts_with('-') => return Err(format!("unknown flag `{flag}`")),
            _ if script.is_none() => script = Some(PathBuf::from(word)),
            _ => return Err("more than one script".to_owned()),
        }
    }
    Ok(ServerArguments { script: script.ok_or("no script")?, options, once })
}

async fn run(arguments: ServerArguments) -> Result<bool, String> {
    let script = Script::load(&arguments.script).map_err(|error| error.to_string())?;
    let server = ModelServer::start_with(script, arguments.options)
        .await
        .map_err(|error| format!("cannot start: {error}"))?;
    let mut stdout = std::io::stdout();
    let _ = writeln!(stdout, "listening on {}", server.url()).and_then(|()| stdout.flush());
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        .map_err(|error| error.to_string())?;
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
        () = server.wait_until_used(), if arguments.once => {}
    }
    let violations = server.violations();
    let count = server.requests().len();
    let _ = writeln!(
        stdout,
        "{count} requests, {} violations, {} replies unused",
        violations.len(),
        server.unused_replies()
    );
    for violation in &violations {
        let _ = writeln!(stdout, "  {violation}");
    }
    Ok(violations.is_empty())
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(problem) => {
            let _ = writeln!(std::io::stderr(), "{problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.map_err(|error| error.to_string()).and_then(|rt| rt.block_on(run(arguments))) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            let _ = writeln!(std::io::stderr(), "{problem}");
            ExitCode::from(2)
        }
    }
}
