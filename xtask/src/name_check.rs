//! The part of installation scripts that warns of another program of the same name.

/// Returns shell lines that warn if another program `name` is in a directory that usually comes
/// before `installed` in PATH. `installed` may use variables of the script.
///
/// Package managers run as root with a PATH of their own, so the usual directories of the user who
/// called `sudo` are examined, too.
pub fn shell_lines(name: &str, installed: &str) -> String {
    format!(
        r#"installed="{installed}"
home=
if [ -n "${{SUDO_USER:-}}" ]; then
    home=$(getent passwd "$SUDO_USER" 2>/dev/null | cut -d: -f6) || home=
fi
for other in "$(command -v {name} 2>/dev/null || true)" /usr/local/bin/{name} \
    ${{home:+"$home/.local/bin/{name}"}} ${{home:+"$home/.cargo/bin/{name}"}} ${{home:+"$home/bin/{name}"}}; do
    if [ -x "$other" ] && ! [ "$other" -ef "$installed" ]; then
        printf 'Warning: %s is another `{name}` and may run instead of %s. Remove it, or put the directory of the new one first in PATH.\n' "$other" "$installed" >&2
        break
    fi
done
"#
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use super::*;

    fn program(directory: &Path) -> String {
        std::fs::create_dir_all(directory).expect("a directory");
        let file = directory.join("parallax");
        std::fs::write(&file, "#!/bin/sh\n").expect("written");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("mode");
        file.to_string_lossy().into_owned()
    }

    #[test]
    fn other_program_earlier_in_path_is_reported() {
        let root = tempfile::tempdir().expect("a directory");
        let installed = program(&root.path().join("usr/bin"));
        let other = program(&root.path().join("a b"));
        let warning = |path: &str| {
            let output = crate::tool::command(Path::new("sh"))
                .args(["-euc", &shell_lines("parallax", &installed)])
                .env("PATH", format!("{path}:/usr/bin:/bin"))
                .env_remove("SUDO_USER")
                .output()
                .expect("sh");
            assert!(output.status.success(), "{output:?}");
            String::from_utf8_lossy(&output.stderr).into_owned()
        };
        let beside = |file: &str| {
            Path::new(file).parent().expect("a directory").to_string_lossy().into_owned()
        };
        assert!(warning(&beside(&other)).contains(&other));
        assert!(!warning(&beside(&installed)).contains(&other));
    }
}
