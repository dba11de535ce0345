//! Programs that stand in for the system's stores of secrets.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// `secret-tool`, with a file for each secret beside it; it writes down how it was
/// called.
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

/// The commands of `security` that are used; orders come on its input.
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

/// One that hangs, as it does where the desktop is gone.
pub const HANGS: &str = "#!/bin/sh\nsleep 60\n";

/// A `secret-tool` in the folder, which is made.
///
/// # Errors
/// The disk refuses.
pub fn secret_tool(folder: &Path) -> io::Result<PathBuf> {
    program(folder, "secret-tool", SECRET_TOOL)
}

/// A `security` in the folder, which is made.
///
/// # Errors
/// The disk refuses.
pub fn security(folder: &Path) -> io::Result<PathBuf> {
    program(folder, "security", SECURITY)
}

/// A program of this text in the folder, which is made.
///
/// # Errors
/// The disk refuses.
pub fn program(folder: &Path, name: &str, text: &str) -> io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let path = folder.join(name);
    std::fs::write(&path, text)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

/// How the stores of the folder were called, a line each.
pub fn calls(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("calls")).unwrap_or_default()
}

/// How many secrets the stores of the folder hold.
pub fn kept(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("kept-")).count()
}
