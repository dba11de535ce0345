//! Skills: folders with a `SKILL.md` that say how to do something, read by the
//! model only when it needs them.

mod pins;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::commands::one_line;
use crate::definition_warnings::DefinitionWarnings;
use crate::definitions::{self, Owner};
use crate::front_matter::read_leniently;
use crate::homes::Homes;

pub use pins::{SkillPins, pin_skill};

/// The file that makes a folder a skill.
pub const SKILL_FILE: &str = "SKILL.md";
/// Bytes of such a file.
const LARGEST: u64 = 512 * 1024;
/// Folders in one place that are looked at.
const MOST: usize = 1_000;
/// Characters of a description.
const DESCRIPTION: usize = 1_024;

/// Whose a skill is, the weakest first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SkillTier {
    /// The program's.
    BuiltIn,
    /// An extension's, by its name.
    Extension(String),
    /// The user's.
    User,
    /// The project's.
    Project,
}

impl SkillTier {
    /// The word for lists.
    pub fn as_str(&self) -> &str {
        match self {
            Self::BuiltIn => "built-in",
            Self::Extension(_) => "extension",
            Self::User => "user",
            Self::Project => "workspace",
        }
    }
}

/// A folder that holds skills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillFolder {
    /// Whose they are.
    pub tier: SkillTier,
    /// The folder; it need not exist.
    pub folder: PathBuf,
}

/// A skill as its file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// What the model calls it by.
    pub name: String,
    /// When to use it.
    pub description: String,
    /// Whose it is.
    pub tier: SkillTier,
    /// Its `SKILL.md`; of those of the program only a name.
    pub file: PathBuf,
    /// What stands in it, for those of the program.
    pub text: Option<&'static str>,
    /// Whether `skills.disabled` names it.
    pub disabled: bool,
}

impl Skill {
    /// A skill of the program.
    ///
    /// # Errors
    /// Why the text is none.
    pub fn built_in(text: &'static str) -> Result<Self, String> {
        let mut skill = of_text(text, Path::new(""), &SkillTier::BuiltIn)?;
        skill.file = Path::new(&skill.name).join(SKILL_FILE);
        skill.text = Some(text);
        Ok(skill)
    }

    /// Where it is, for people and the model.
    pub fn place(&self) -> String {
        match self.text {
            Some(_) => "in the program".to_owned(),
            None => self.file.display().to_string(),
        }
    }

    /// The folder with all that belongs to it.
    pub fn folder(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new("/"))
    }
}

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct Skills {
    /// The skills, by name; of equal names only the strongest.
    pub skills: Vec<Skill>,
    /// What people should hear, one sentence each.
    pub warnings: DefinitionWarnings,
}

/// The folders of the user and, when it is trusted, of the project, the weakest
/// first.
pub fn skill_folders(homes: &Homes, cwd: &Path, trusted: bool) -> Vec<SkillFolder> {
    let folders = definitions::folders(homes, cwd, trusted, "skills", &[".agents"]);
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

/// Puts the skills of the program and those of the folders together, given the
/// weakest first. Blocking; bounded in files and bytes.
pub fn find_skills(built_in: Vec<Skill>, folders: &[SkillFolder], disabled: &[String]) -> Skills {
    let is_disabled =
        |skill: &Skill| disabled.iter().any(|name| name.eq_ignore_ascii_case(&skill.name));
    let mut found: HashMap<String, Skill> = HashMap::new();
    let (mut invalid, mut shadowed) = (Vec::new(), Vec::new());
    for mut skill in built_in {
        skill.disabled = is_disabled(&skill);
        found.insert(skill.name.clone(), skill);
    }
    for place in folders {
        for file in skill_files(&place.folder) {
            let mut skill = match read_skill(&file, &place.tier) {
                Ok(skill) => skill,
                Err(why) => {
                    invalid.push(format!("{}: not a valid skill: {why}", file.display()));
                    continue;
                }
            };
            skill.disabled = is_disabled(&skill);
            let name = skill.name.clone();
            let path = skill.file.display().to_string();
            if let Some(weaker) = found.insert(name, skill) {
                shadowed.push(format!(
                    "the skill `{}` of {} is not used: {path} has its name",
                    weaker.name,
                    weaker.place()
                ));
            }
        }
    }
    let warnings = DefinitionWarnings { invalid, shadowed, ..DefinitionWarnings::default() };
    let mut skills: Vec<Skill> = found.into_values().collect();
    skills.sort_by(|one, other| one.name.cmp(&other.name));
    Skills { skills, warnings }
}

/// The skill files of a folder: its own, and those of the folders in it.
pub fn skill_files(folder: &Path) -> Vec<PathBuf> {
    let own = folder.join(SKILL_FILE);
    if own.is_file() {
        return vec![own];
    }
    definitions::files(folder, MOST, |path| {
        let file = path.join(SKILL_FILE);
        file.is_file().then_some(file)
    })
}

/// Reads one skill's name and description.
///
/// # Errors
/// Why it is none.
pub fn read_skill(file: &Path, tier: &SkillTier) -> Result<Skill, String> {
    let text = definitions::text(file, LARGEST)?;
    of_text(&text, file, tier)
}

fn of_text(text: &str, file: &Path, tier: &SkillTier) -> Result<Skill, String> {
    let fields = read_leniently(text).fields;
    let field = |name: &str| fields.get(name).and_then(Value::as_str).map(str::trim);
    let name = field("name").filter(|name| !name.is_empty()).ok_or("its `name` is missing")?;
    let description = field("description")
        .filter(|text| !text.is_empty())
        .ok_or("its `description` is missing")?;
    Ok(Skill {
        name: one_line(name, 64).chars().map(safe).collect(),
        description: one_line(description, DESCRIPTION),
        tier: tier.clone(),
        file: file.to_owned(),
        text: None,
        disabled: false,
    })
}

/// Characters that paths and tags are made of do not belong into names.
fn safe(char: char) -> char {
    match char {
        ':' | '\\' | '/' | '<' | '>' | '*' | '?' | '"' | '|' => '-',
        _ => char,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, path: &str, text: &str) {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("folder");
        std::fs::write(path, text).expect("written");
    }

    fn find(root: &Path, trusted: bool, disabled: &[String]) -> Skills {
        let home = root.join("home");
        let (gemini, parallax) = (home.join(".gemini"), home.join(".parallax"));
        let homes = Homes { user: home, gemini, parallax };
        find_skills(Vec::new(), &skill_folders(&homes, &root.join("project"), trusted), disabled)
    }

    #[test]
    fn the_strongest_of_equal_names_counts() {
        let folder = tempfile::tempdir().expect("folder");
        let root = folder.path();
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
