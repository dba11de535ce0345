//! Fakes of the programs that access the system's keychain.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// `secret-tool`, which stores each secret in a file next to it and logs its calls.
const SECRET_TOOL: &str = r#"#!/bin/sh
here=$(dirname "$0")
echo "$*" >> "$here/calls"
what=$1; shift
[ "$what" = store ] && shift
file="$here/kept-$(printf '%s' "$*" | cksum | tr -d ' ')"
case $what in
store) cat > "$file" ;;
lookup) [ -f "$file" ] && cat "$file" ;;
clear) rm -f "$file" ;;
esac
"#;

/// The used commands of `security`, which also reads commands from stdin.
const SECURITY: &str = r#"#!/bin/sh
here=$(dirname "$0")
echo "$*" >> "$here/calls"
case $1 in
-i) read -r order
    eval "set -- $order"
    [ "$2" = -U ] && [ "$7" = -l ] && printf '%s' "${10}" > "$here/kept-$(printf '%s' "$6" | cksum | tr -d ' ')" ;;
find-generic-password)
    cat "$here/kept-$(printf '%s' "$5" | cksum | tr -d ' ')" 2>/dev/null || exit 44
    echo ;;
delete-generic-password) rm "$here/kept-$(printf '%s' "$5" | cksum | tr -d ' ')" 2>/dev/null || exit 44 ;;
esac
"#;

/// A program that hangs, as it does without a desktop session.
pub const HANGS: &str = "#!/bin/sh\nsleep 60\n";

/// Creates a `secret-tool` in the directory, and the directory.
///
/// # Errors
/// Returns an error if a file cannot be written.
pub fn secret_tool(directory: &Path) -> io::Result<PathBuf> {
    program(directory, "secret-tool", SECRET_TOOL)
}

/// Creates a `security` in the directory, and the directory.
///
/// # Errors
/// Returns an error if a file cannot be written.
pub fn security(directory: &Path) -> io::Result<PathBuf> {
    program(directory, "security", SECURITY)
}

/// Creates a program with this text in the directory, and the directory.
///
/// # Errors
/// Returns an error if a file cannot be written.
pub fn program(directory: &Path, name: &str, text: &str) -> io::Result<PathBuf> {
    std::fs::create_dir_all(directory)?;
    let path = directory.join(name);
    std::fs::write(&path, text)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

/// Returns the calls of the programs in the directory, one per line.
pub fn calls(directory: &Path) -> String {
    std::fs::read_to_string(directory.join("calls")).unwrap_or_default()
}

/// Returns the number of secrets stored in the directory.
pub fn count_secrets(directory: &Path) -> usize {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("kept-")).count()
}
