//! The objects of a batch: its plan, its network, and its job. They are serialized as JSON, which
//! every YAML parser accepts, so that text of a plan cannot become a field.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::error::BatchError;
use crate::kubernetes::network::egress;
use crate::kubernetes::options::KubernetesOptions;
use crate::kubernetes::repository::git_host;
use crate::plan::PlannedTask;

/// Maximum size in bytes of a part of the plan: an object may have 1 MiB.
const MAX_PART_BYTES: usize = 900_000;
/// Maximum number of parts of a plan.
const MAX_PARTS: usize = 16;
/// The user of the pods.
const USER: u32 = 10001;
/// Seconds for which a finished job is kept.
const KEEP_TIME: u32 = 24 * 60 * 60;
/// Seconds that a task may take to finish its tool calls when its pod is stopped.
const GRACE_TIME: u32 = 90;
/// Exit codes after which no task of the batch can succeed.
const JOB_CODES: [u8; 3] = [41, 42, 52];
/// Exit codes after which the same task would fail again.
const TASK_CODES: [u8; 3] = [53, 56, 57];

/// Lets git use the entries of a Secret: those of `kubernetes.io/basic-auth`, or those of
/// `kubernetes.io/ssh-auth` with `known_hosts`. The kubelet replaces `$$` by `$`.
const GIT_SECRET: [(&str, &str); 4] = [
    ("GIT_CONFIG_COUNT", "1"),
    ("GIT_CONFIG_KEY_0", "credential.helper"),
    (
        "GIT_CONFIG_VALUE_0",
        "!f() { test \"$1\" = get || return 0; \
         printf 'username=%s\\npassword=%s\\n' \
         \"$$(cat /git-secret/username)\" \"$$(cat /git-secret/password)\"; }; f",
    ),
    (
        "GIT_SSH_COMMAND",
        "ssh -i /git-secret/ssh-privatekey -o IdentitiesOnly=yes \
         -o UserKnownHostsFile=/git-secret/known_hosts",
    ),
];

/// The objects of one batch.
pub(crate) struct Manifests {
    /// Parts of the plan, and the NetworkPolicy. They belong to the job.
    pub(crate) supports: Vec<(String, Value)>,
    /// The Job.
    pub(crate) job: Value,
}

/// Returns the objects for these tasks. `name` is that of the job, `results` that of the batch on
/// the claim.
pub(crate) fn manifests(
    name: &str,
    results: &str,
    tasks: &[PlannedTask],
    max_cost: Option<f64>,
    options: &KubernetesOptions,
) -> Result<Manifests, BatchError> {
    let labels = json!({
        "app.kubernetes.io/name": "parallax-batch",
        "app.kubernetes.io/instance": name,
    });
    let parts = parts(tasks)?;
    let mut supports = Vec::new();
    let mut sources = Vec::new();
    for (number, text) in parts.into_iter().enumerate() {
        let (part, key) = (format!("{name}-plan-{number}"), format!("plan-{number:02}.jsonl"));
        sources.push(json!({"configMap": {"name": part}}));
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": metadata(&part, &labels, options),
            "immutable": true,
            "data": {key: text},
        });
        supports.push((format!("plan-{number}"), object));
    }
    let hosts = tasks.iter().filter_map(|task| git_host(task).ok());
    let (mut names, mut ports) = (BTreeSet::new(), BTreeSet::from([443]));
    for host in hosts {
        names.insert(host.name);
        ports.insert(host.port);
    }
    names.extend(options.model_hosts.iter().cloned());
    let mut policy = metadata(name, &labels, options);
    set(
        &mut policy,
        "annotations",
        json!({
            // For policies that support host names, and for users.
            "parallax/hosts": names.into_iter().collect::<Vec<_>>().join(","),
        }),
    );
    let policy = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": policy,
        "spec": {
            "podSelector": {"matchLabels": {"app.kubernetes.io/instance": name}},
            "policyTypes": ["Ingress", "Egress"],
            "egress": egress(&options.egress, &ports),
        },
    });
    supports.push(("network".to_owned(), policy));
    let mut about = metadata(name, &labels, options);
    if let Some(queue) = &options.queue
        && let Some(labels) = about.get_mut("labels")
    {
        set(labels, "kueue.x-k8s.io/queue-name", json!(queue));
    }
    let mut spec = json!({
        "completionMode": "Indexed",
        "completions": tasks.len(),
        "parallelism": options.jobs.min(tasks.len()),
        "backoffLimitPerIndex": options.retries,
        "maxFailedIndexes": options.max_failed.map_or(tasks.len(), |max| max as usize)
            .min(tasks.len()),
        "podFailurePolicy": {"rules": [
            {"action": "FailJob", "onExitCodes": {"operator": "In", "values": JOB_CODES}},
            {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": TASK_CODES}},
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        ]},
        "ttlSecondsAfterFinished": KEEP_TIME,
        "activeDeadlineSeconds": options.deadline,
        "template": {
            "metadata": {"labels": labels},
            "spec": pod(results, sources, max_cost, options),
        },
    });
    if options.queue.is_some() {
        // Kueue starts it.
        set(&mut spec, "suspend", json!(true));
    }
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": about, "spec": spec});
    Ok(Manifests { supports, job })
}

fn pod(
    results: &str,
    sources: Vec<Value>,
    max_cost: Option<f64>,
    options: &KubernetesOptions,
) -> Value {
    let mut volumes = vec![
        json!({"name": "plan", "projected": {"sources": sources}}),
        json!({"name": "work", "emptyDir": {}}),
        json!({"name": "tmp", "emptyDir": {}}),
    ];
    let mount = |name: &str, path: &str| json!({"name": name, "mountPath": path});
    let mut mounts = vec![mount("work", "/workspace"), mount("tmp", "/tmp")];
    let mut plan = mount("plan", "/plan");
    set(&mut plan, "readOnly", json!(true));
    mounts.push(plan);
    let mut clone_mounts = mounts.clone();
    let mut out = "/workspace/results".to_owned();
    if let Some(claim) = &options.results_claim {
        volumes.push(json!({"name": "results", "persistentVolumeClaim": {"claimName": claim}}));
        mounts.push(mount("results", "/results"));
        out = format!("/results/{results}");
    }
    if let Some(secret) = &options.git_secret {
        volumes.push(json!({"name": "git-secret",
            "secret": {"secretName": secret, "defaultMode": 0o440}}));
        let mut secret = mount("git-secret", "/git-secret");
        set(&mut secret, "readOnly", json!(true));
        clone_mounts.push(secret);
    }
    let command = |out: &str, more: &[&str]| {
        let mut words = vec!["parallax", "batch", "run-task", "/plan", "--index"];
        // The kubelet replaces it.
        words.extend(["$(JOB_COMPLETION_INDEX)", "--repositories", "/workspace/repositories"]);
        words.extend(["--out", out]);
        words.extend(more);
        words.into_iter().map(str::to_owned).collect::<Vec<String>>()
    };
    let mut task = command(&out, &["--print-results"]);
    task.extend(options.arguments.iter().map(|argument| argument.replace('$', "$$")));
    // Without a claim, a pod cannot know what other tasks cost.
    if let Some(limit) = max_cost.filter(|_| options.results_claim.is_some()) {
        task.extend(["--max-cost".to_owned(), limit.to_string()]);
    }
    let clone = command("/workspace/results", &["--clone-only"]);
    let mut clone = container("clone", &clone, clone_mounts, options);
    if options.git_secret.is_some()
        && let Some(variables) = clone.get_mut("env").and_then(Value::as_array_mut)
    {
        let pairs = GIT_SECRET.iter().map(|(name, value)| json!({"name": name, "value": value}));
        variables.extend(pairs);
    }
    let mut task = container("task", &task, mounts, options);
    if let Some(secret) = &options.secret {
        set(&mut task, "envFrom", json!([{"secretRef": {"name": secret}}]));
    }
    let mut pod = json!({
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_TIME,
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        // What an agent leaves behind is reaped outside of its container.
        "shareProcessNamespace": true,
        "securityContext": {
            "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "initContainers": [clone],
        "containers": [task],
        "volumes": volumes,
    });
    if let Some(secret) = &options.image_pull_secret {
        set(&mut pod, "imagePullSecrets", json!([{"name": secret}]));
    }
    pod
}

fn container(
    name: &str,
    command: &[String],
    mounts: Vec<Value>,
    options: &KubernetesOptions,
) -> Value {
    let mut container = json!({
        "name": name,
        "image": options.image,
        "command": command,
        "workingDir": "/workspace",
        "env": [{"name": "HOME", "value": "/workspace/home"}, {"name": "TMPDIR", "value": "/tmp"}],
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    });
    let mut resources = BTreeMap::new();
    resources.extend(options.memory.map(|bytes| ("memory", bytes.to_string())));
    resources.extend(options.cpus.clone().map(|cpus| ("cpu", cpus)));
    if !resources.is_empty() {
        set(&mut container, "resources", json!({"requests": resources, "limits": resources}));
    }
    container
}

fn metadata(name: &str, labels: &Value, options: &KubernetesOptions) -> Value {
    let mut metadata = json!({"name": name, "labels": labels});
    if let Some(namespace) = &options.namespace {
        set(&mut metadata, "namespace", json!(namespace));
    }
    metadata
}

fn set(object: &mut Value, key: &str, value: Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(key.to_owned(), value);
    }
}

/// Returns the lines of the plan, in parts that an object can hold.
fn parts(tasks: &[PlannedTask]) -> Result<Vec<String>, BatchError> {
    let mut parts = vec![String::new()];
    for task in tasks {
        let line = task.line();
        if line.len() >= MAX_PART_BYTES {
            return Err(BatchError::Input(format!(
                "Task `{}` is larger than 900 kB, which Kubernetes cannot hold; put its text into \
                 a file of the repository",
                task.id
            )));
        }
        if parts.last().is_some_and(|part| part.len() + line.len() >= MAX_PART_BYTES) {
            parts.push(String::new());
        }
        if let Some(part) = parts.last_mut() {
            part.push_str(&line);
            part.push('\n');
        }
    }
    if parts.len() > MAX_PARTS {
        return Err(BatchError::Input(format!(
            "The plan has more than {MAX_PARTS} parts of 900 kB, which is too much for the \
             cluster; split it into several plans"
        )));
    }
    Ok(parts)
}

/// Makes the supporting objects be deleted with the job.
pub(crate) fn set_owner(supports: &mut [(String, Value)], job: &Value) {
    let field = |pointer: &str| job.pointer(pointer).cloned().unwrap_or_default();
    let owner = Map::from_iter([
        ("apiVersion".to_owned(), json!("batch/v1")),
        ("kind".to_owned(), json!("Job")),
        ("name".to_owned(), field("/metadata/name")),
        ("uid".to_owned(), field("/metadata/uid")),
    ]);
    for (_, object) in supports {
        if let Some(metadata) = object.get_mut("metadata") {
            set(metadata, "ownerReferences", json!([owner]));
        }
    }
}

/// Writes the objects into a directory, for `kubectl apply -f`; the job is last.
pub(crate) fn write(manifests: &Manifests, directory: &Path) -> Result<(), BatchError> {
    std::fs::create_dir_all(directory)
        .map_err(|source| BatchError::Write { file: directory.to_owned(), source })?;
    for (name, object) in &manifests.supports {
        crate::directory::write_json(&directory.join(format!("{name}.json")), object)?;
    }
    match &manifests.job {
        Value::Null => Ok(()),
        job => crate::directory::write_json(&directory.join("zz-job.json"), job),
    }
}
