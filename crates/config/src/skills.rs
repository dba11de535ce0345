//! Skills: directories with a `SKILL.md` that describes how to do something, read by the model only
//! when needed.

mod pins;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::commands::one_line;
use crate::definition_warnings::DefinitionWarnings;
use crate::definitions::{self, Owner};
use crate::front_matter::read_leniently;
use crate::user_dirs::UserDirs;

pub use pins::{SkillPins, pin_skill};

/// The file that makes a directory a skill.
pub const SKILL_FILE: &str = "SKILL.md";
/// Maximum size of a skill file in bytes.
const MAX_BYTES: u64 = 512 * 1024;
/// Maximum number of directories read in one place.
const MAX_COUNT: usize = 1_000;
/// Maximum number of characters of a description.
const DESCRIPTION: usize = 1_024;

/// Where a skill comes from, in ascending order of precedence.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SkillTier {
    /// Built into Parallax.
    BuiltIn,
    /// An extension, by name.
    Extension(String),
    /// The user.
    User,
    /// The project.
    Project,
}

impl SkillTier {
    /// Returns the label used in lists.
    pub fn as_str(&self) -> &str {
        match self {
            Self::BuiltIn => "built-in",
            Self::Extension(_) => "extension",
            Self::User => "user",
            Self::Project => "workspace",
        }
    }
}

/// A directory that holds skills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillFolder {
    /// Where the skills come from.
    pub tier: SkillTier,
    /// The directory; it need not exist.
    pub folder: PathBuf,
}

/// A skill as defined by its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// The name by which the model activates it.
    pub name: String,
    /// When to use it.
    pub description: String,
    /// Where it comes from.
    pub tier: SkillTier,
    /// Its `SKILL.md`; for built-in skills only a name.
    pub file: PathBuf,
    /// The text of a built-in skill.
    pub text: Option<&'static str>,
    /// Whether `skills.disabled` lists it.
    pub disabled: bool,
}

impl Skill {
    /// Creates a built-in skill.
    ///
    /// # Errors
    /// Returns the reason if the text is not a valid skill.
    pub fn built_in(text: &'static str) -> Result<Self, String> {
        let mut skill = parse(text, Path::new(""), &SkillTier::BuiltIn)?;
        skill.file = Path::new(&skill.name).join(SKILL_FILE);
        skill.text = Some(text);
        Ok(skill)
    }

    /// Returns its location, for the user and the model.
    pub fn location(&self) -> String {
        match self.text {
            Some(_) => "built in".to_owned(),
            None => self.file.display().to_string(),
        }
    }

    /// Returns the directory with all its files.
    pub fn folder(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new("/"))
    }
}

/// The skills that were found.
#[derive(Debug, Clone, Default)]
pub struct Skills {
    /// The skills by name; of several skills with the same name, only the one with the highest
    /// precedence.
    pub skills: Vec<Skill>,
    /// Warnings for the user, one sentence each.
    pub warnings: DefinitionWarnings,
}

/// Returns the skill directories of the user and, if it is trusted, of the project, in ascending
/// order of precedence.
pub fn skill_folders(dirs: &UserDirs, cwd: &Path, trusted: bool) -> Vec<SkillFolder> {
    let folders = definitions::directories(dirs, cwd, trusted, "skills", &[".agents"]);
    folders
        .into_iter()
        .map(|(owner, folder)| SkillFolder {
            tier: match owner {
                Owner::User => SkillTier::User,
                Owner::Project => SkillTier::Project,
            },
            folder,
        })
        .collect()
}

/// Combines the built-in skills with those of the directories, given in ascending order of
/// precedence. Blocking; bounded in files and bytes.
pub fn find_skills(
    built_in: Vec<Skill>,
    directories: &[SkillFolder],
    disabled: &[String],
) -> Skills {
    let is_disabled =
        |skill: &Skill| disabled.iter().any(|name| name.eq_ignore_ascii_case(&skill.name));
    let mut found: HashMap<String, Skill> = HashMap::new();
    let (mut invalid, mut shadowed) = (Vec::new(), Vec::new());
    for mut skill in built_in {
        skill.disabled = is_disabled(&skill);
        found.insert(skill.name.clone(), skill);
    }
    for location in directories {
        for file in skill_files(&location.folder) {
            let mut skill = match read_skill(&file, &location.tier) {
                Ok(skill) => skill,
                Err(reason) => {
                    invalid.push(format!("{}: not a valid skill: {reason}", file.display()));
                    continue;
                }
            };
            skill.disabled = is_disabled(&skill);
            let name = skill.name.clone();
            let path = skill.file.display().to_string();
            if let Some(weaker) = found.insert(name, skill) {
                shadowed.push(format!(
                    "the skill `{}` ({}) is ignored: {path} has the same name",
                    weaker.name,
                    weaker.location()
                ));
            }
        }
    }
    let warnings = DefinitionWarnings { invalid, shadowed, ..DefinitionWarnings::default() };
    let mut skills: Vec<Skill> = found.into_values().collect();
    skills.sort_by(|one, other| one.name.cmp(&other.name));
    Skills { skills, warnings }
}

/// Returns the skill files of a directory: its own and those of its subdirectories.
pub fn skill_files(directory: &Path) -> Vec<PathBuf> {
    let skill_file = directory.join(SKILL_FILE);
    if skill_file.is_file() {
        return vec![skill_file];
    }
    definitions::files(directory, MAX_COUNT, |path| {
        let file = path.join(SKILL_FILE);
        file.is_file().then_some(file)
    })
}

/// Reads the name and description of a skill.
///
/// # Errors
/// Returns the reason if the file is not a valid skill.
pub fn read_skill(file: &Path, tier: &SkillTier) -> Result<Skill, String> {
    let text = definitions::text(file, MAX_BYTES)?;
    parse(&text, file, tier)
}

fn parse(text: &str, file: &Path, tier: &SkillTier) -> Result<Skill, String> {
    let fields = read_leniently(text).fields;
    let field = |name: &str| fields.get(name).and_then(Value::as_str).map(str::trim);
    let name = field("name").filter(|name| !name.is_empty()).ok_or("`name` is missing")?;
    let description =
        field("description").filter(|text| !text.is_empty()).ok_or("`description` is missing")?;
    Ok(Skill {
        name: one_line(name, 64).chars().map(sanitize_char).collect(),
        description: one_line(description, DESCRIPTION),
        tier: tier.clone(),
        file: file.to_owned(),
        text: None,
        disabled: false,
    })
}

/// Replaces characters that have a meaning in paths or tags.
fn sanitize_char(char: char) -> char {
    match char {
        ':' | '\\' | '/' | '<' | '>' | '*' | '?' | '"' | '|' => '-',
        _ => char,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(directory: &Path, path: &str, text: &str) {
        let path = directory.join(path);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("directory");
        std::fs::write(path, text).expect("written");
    }

    fn find(root: &Path, trusted: bool, disabled: &[String]) -> Skills {
        let home = root.join("home");
        let (gemini, parallax) = (home.join(".gemini"), home.join(".parallax"));
        let dirs = UserDirs { user: home, gemini, parallax };
        find_skills(Vec::new(), &skill_folders(&dirs, &root.join("project"), trusted), disabled)
    }

    #[test]
    fn highest_precedence_skill_name_wins() {
        let directory = tempfile::tempdir().expect("directory");
        let root = directory.path();
        let skill =
            |name: &str, text: &str| format!("---\nname: {name}\ndescription: {text}\n---\n");
        write(root, "home/.gemini/skills/a/SKILL.md", &skill("a", "one"));
        write(root, "home/.agents/skills/a/SKILL.md", &skill("a", "two"));
        write(root, "home/.parallax/skills/SKILL.md", &skill("x/y", "Use: when asked"));
        write(root, "project/.gemini/skills/a/SKILL.md", &skill("a", "three"));
        write(root, "project/.agents/skills/z/SKILL.md", "---\nname: z\n---\n");
        let found = find(root, true, &["A".to_owned()]);
        let shown: Vec<(&str, &str, &str, bool)> = found
            .skills
            .iter()
            .map(|skill| (&*skill.name, &*skill.description, skill.tier.as_str(), skill.disabled))
            .collect();
        assert_eq!(
            shown,
            [("a", "three", "workspace", true), ("x-y", "Use: when asked", "user", false)]
        );
        assert_eq!(found.warnings.summary("list").len(), 2, "{:?}", found.warnings);
        assert_eq!(find(root, false, &[]).skills[0].description, "two");
    }
}
