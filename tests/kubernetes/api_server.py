"""A small Kubernetes API server, with a controller for Indexed Jobs that runs the containers.

It knows what `kubectl` needs to apply, get, patch, and delete Jobs, ConfigMaps,
NetworkPolicies, Secrets, and Pods, and to read logs. Objects are checked with
the public schemas. Containers run with run_container.py.
"""

import base64
import copy
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.parse
import uuid

KINDS = {
    "configmaps": ("", "ConfigMap"), "secrets": ("", "Secret"), "pods": ("", "Pod"),
    "jobs": ("batch", "Job"), "networkpolicies": ("networking.k8s.io", "NetworkPolicy"),
}
INDEX = "batch.kubernetes.io/job-completion-index"
HERE = os.path.dirname(os.path.abspath(__file__))


def merge(old, new):
    if not isinstance(old, dict) or not isinstance(new, dict):
        return copy.deepcopy(new)
    merged = dict(old)
    for key, value in new.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def ranges(numbers):
    text, numbers = [], sorted(numbers)
    while numbers:
        first = last = numbers.pop(0)
        while numbers and numbers[0] == last + 1:
            last = numbers.pop(0)
        text.append(str(first) if first == last else f"{first}-{last}")
    return ",".join(text)


def matches(labels, selector):
    for part in re.findall(r"[^,\s]+\s+in\s+\([^)]*\)|[^,]+", selector or ""):
        found = re.fullmatch(r"\s*(\S+)\s+in\s+\(([^)]*)\)\s*", part)
        key, values = (found[1], found[2].split(",")) if found else part.replace("==", "=").split("=", 1)
        values = values if found else [values]
        if labels.get(key.strip()) not in [value.strip() for value in values]:
            return False
    return True


class Cluster:
    """The objects, and the controller."""

    def __init__(self, directory, program, check=None, container=None):
        self.directory, self.program, self.check = directory, program, check
        self.container = container or [sys.executable, os.path.join(HERE, "run_container.py")]
        self.lock = threading.RLock()
        self.objects, self.processes, self.requests = {}, {}, []
        self.claims = {}
        self.failures = {}
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.control, daemon=True)
        self.thread.start()

    def put(self, plural, namespace, name, value):
        with self.lock:
            key = (plural, namespace, name)
            old = self.objects.get(key)
            new = merge(old or {}, value)
            metadata = new.setdefault("metadata", {})
            metadata.update(name=name, namespace=namespace)
            if old is None:
                metadata.update(uid=str(uuid.uuid4()), creationTimestamp=now(), generation=1)
            elif plural == "jobs":
                for field in ("completions", "completionMode", "template", "backoffLimitPerIndex", "podFailurePolicy"):
                    if old["spec"].get(field) != new["spec"].get(field):
                        return 422, status(422, f"field is immutable: spec.{field}")
            metadata["resourceVersion"] = str(time.monotonic_ns())
            if self.check and plural != "pods":
                self.check(new)
            self.objects[key] = new
            return (201 if old is None else 200), new

    def delete(self, plural, namespace, name):
        with self.lock:
            gone = self.objects.pop((plural, namespace, name), None)
            if gone is None:
                return 404, status(404, f'{plural} "{name}" not found')
            uid = gone["metadata"]["uid"]
            for key, value in list(self.objects.items()):
                owners = value["metadata"].get("ownerReferences", [])
                if any(owner.get("uid") == uid for owner in owners):
                    self.delete(*key)
            if plural == "pods":
                self.terminate(name)
            return 200, gone

    def pods(self, job):
        return [pod for (plural, _, _), pod in self.objects.items() if plural == "pods"
                and pod["metadata"]["labels"].get("batch.kubernetes.io/job-name") == job["metadata"]["name"]]

    # The controller.

    def control(self):
        while not self.ended.is_set():
            with self.lock:
                for (plural, _, _), job in list(self.objects.items()):
                    if plural == "jobs":
                        self.reconcile(job)
            time.sleep(0.05)

    def reconcile(self, job):
        spec, state = job["spec"], job.setdefault("status", {})
        if any(condition["type"] in ("Complete", "Failed") for condition in state.get("conditions", [])):
            return
        done = job.setdefault("_done", set())
        failed, counts, seen = job.setdefault("_failed", set()), job.setdefault("_counts", {}), job.setdefault("_seen", set())
        conditions = []
        for pod in self.pods(job):
            name, index = pod["metadata"]["name"], int(pod["metadata"]["labels"][INDEX])
            phase = pod["status"]["phase"]
            if name in seen or phase not in ("Succeeded", "Failed"):
                continue
            seen.add(name)
            if phase == "Succeeded":
                done.add(index)
                continue
            codes = [container["state"]["terminated"]["exitCode"]
                     for kind in ("initContainerStatuses", "containerStatuses")
                     for container in pod["status"].get(kind, []) if "terminated" in container["state"]]
            action = "Count"
            for rule in spec["podFailurePolicy"]["rules"]:
                wanted = rule.get("onExitCodes", {}).get("values", [])
                kinds = [condition["type"] for condition in rule.get("onPodConditions", [])]
                here = [condition["type"] for condition in pod["status"].get("conditions", [])]
                if set(wanted) & set(codes) or set(kinds) & set(here):
                    action = rule["action"]
                    break
            if action == "FailJob":
                conditions.append(("Failed", "PodFailurePolicy", f"Container task for pod {name} failed with exit code {codes[-1]}"))
            elif action == "FailIndex":
                failed.add(index)
            elif action == "Count":
                counts[index] = counts.get(index, 0) + 1
                if counts[index] > spec["backoffLimitPerIndex"]:
                    failed.add(index)
        active = [pod for pod in self.pods(job) if pod["status"]["phase"] in ("Pending", "Running")]
        suspended = spec.get("suspend", False)
        if len(failed) > spec.get("maxFailedIndexes", spec["completions"]):
            conditions.append(("Failed", "MaxFailedIndexesExceeded", "too many indexes failed"))
        elif len(done) + len(failed) == spec["completions"]:
            conditions.append(("Failed", "FailedIndexes", "Job has failed indexes") if failed
                              else ("Complete", "CompletionsReached", "Reached expected number of succeeded pods"))
        elif suspended:
            conditions.append(("Suspended", "JobSuspended", "Job suspended"))
        if suspended or any(kind != "Complete" for kind, _, _ in conditions):
            for pod in active:
                if not pod["metadata"].get("deletionTimestamp"):
                    pod["metadata"]["deletionTimestamp"] = now()
                    self.terminate(pod["metadata"]["name"])
        elif not conditions:
            busy = {int(pod["metadata"]["labels"][INDEX]) for pod in active}
            left = [index for index in range(spec["completions"]) if index not in done | failed | busy]
            for index in left[:max(0, spec["parallelism"] - len(active))]:
                self.start(job, index)
        active = [pod for pod in self.pods(job) if pod["status"]["phase"] in ("Pending", "Running")]
        state.update(active=len(active), succeeded=len(done), completedIndexes=ranges(done), failedIndexes=ranges(failed),
                     conditions=[{"type": kind, "status": "True", "reason": reason, "message": message,
                                  "lastTransitionTime": now()} for kind, reason, message in conditions])

    def start(self, job, index):
        spec = job["spec"]["template"]["spec"]
        name = f"{job['metadata']['name']}-{index}-{uuid.uuid4().hex[:5]}"
        labels = dict(job["spec"]["template"]["metadata"]["labels"])
        labels.update({"batch.kubernetes.io/job-name": job["metadata"]["name"], "job-name": job["metadata"]["name"], INDEX: str(index)})
        pod = {"apiVersion": "v1", "kind": "Pod", "spec": spec, "status": {"phase": "Running"},
               "metadata": {"name": name, "labels": labels, "annotations": {INDEX: str(index)},
                            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": job["metadata"]["name"], "uid": job["metadata"]["uid"]}]}}
        _, pod = self.put("pods", job["metadata"]["namespace"], name, pod)
        threading.Thread(target=self.run, args=(pod, index), daemon=True).start()

    def run(self, pod, index):
        """Runs the containers of a pod one after the other."""
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        home = f"{self.directory}/pods/{name}"
        volumes = {}
        for volume in pod["spec"]["volumes"]:
            path = f"{home}/volumes/{volume['name']}"
            if "persistentVolumeClaim" in volume:
                path = self.claims[volume["persistentVolumeClaim"]["claimName"]]
            else:
                os.makedirs(path)
            user = pod["spec"]["securityContext"]["runAsUser"]
            os.chown(path, user, user)
            for source in volume.get("projected", {}).get("sources", []):
                with self.lock:
                    data = self.objects[("configmaps", namespace, source["configMap"]["name"])]["data"]
                for key, text in data.items():
                    with open(f"{path}/{key}", "w", encoding="utf-8") as file:
                        file.write(text)
            if "secret" in volume:
                for key, value in self.secret(namespace, volume["secret"]["secretName"]).items():
                    with open(f"{path}/{key}", "w", encoding="utf-8") as file:
                        file.write(value)
            volumes[volume["name"]] = path
        for kind, key in (("initContainers", "initContainerStatuses"), ("containers", "containerStatuses")):
            for container in pod["spec"][kind]:
                code = self.container_run(pod, index, container, volumes, home)
                with self.lock:
                    pod["status"].setdefault(key, []).append(
                        {"name": container["name"], "state": {"terminated": {"exitCode": code, "reason": "Completed" if code == 0 else "Error"}}})
                    if code != 0:
                        pod["status"]["phase"] = "Failed"
                if code != 0:
                    return
        with self.lock:
            pod["status"]["phase"] = "Succeeded"

    def secret(self, namespace, name):
        with self.lock:
            value = self.objects[("secrets", namespace, name)]
        data = {key: base64.b64decode(text).decode() for key, text in value.get("data", {}).items()}
        return data | value.get("stringData", {})

    def container_run(self, pod, index, container, volumes, home):
        environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "JOB_COMPLETION_INDEX": str(index)}
        for source in container.get("envFrom", []):
            environment.update(self.secret(pod["metadata"]["namespace"], source["secretRef"]["name"]))
        expand = lambda text: re.sub(r"\$\$|\$\((\w+)\)", lambda found: "$" if found[0] == "$$" else environment.get(found[1], found[0]), text)
        for pair in container["env"]:
            environment[pair["name"]] = expand(pair["value"])
        mounts = [(volumes[mount["name"]], mount["mountPath"], mount.get("readOnly", False)) for mount in container["volumeMounts"]]
        mounts.append((self.program, "/opt/parallax", True))
        command = [expand(word) for word in container["command"]]
        assert command[0] == "parallax", command
        command[0] = "/opt/parallax"
        root = f"{home}/root-{container['name']}"
        os.makedirs(root)
        with open(f"{home}/{container['name']}.json", "w", encoding="utf-8") as file:
            json.dump({"root": root, "mounts": mounts, "directory": container["workingDir"], "command": command,
                       "environment": environment, "user": pod["spec"]["securityContext"]["runAsUser"]}, file)
        name = pod["metadata"]["name"]
        with open(f"{home}/{container['name']}.log", "wb") as log:
            with self.lock:
                if pod["metadata"].get("deletionTimestamp"):
                    return 143
                child = subprocess.Popen(self.container + [file.name], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
                self.processes[name] = child
        code = child.wait()
        with self.lock:
            self.processes.pop(name, None)
        return code

    def terminate(self, name, number=signal.SIGTERM):
        child = self.processes.get(name)
        if child is not None and child.poll() is None:
            child.send_signal(number)
            timer = threading.Timer(90, child.kill)
            timer.daemon = True
            timer.start()

    # What happens to clusters.

    def running(self):
        with self.lock:
            return [pod["metadata"]["name"] for (plural, _, _), pod in self.objects.items()
                    if plural == "pods" and pod["status"]["phase"] == "Running" and not pod["metadata"].get("deletionTimestamp")
                    and pod["metadata"]["name"] in self.processes
                    and os.path.exists(f"{self.directory}/pods/{pod['metadata']['name']}/task.log")]

    def evict(self, name):
        """Ends a pod as an eviction does: with SIGTERM, and a condition that says why."""
        with self.lock:
            for (plural, _, pod), value in self.objects.items():
                if plural == "pods" and pod == name:
                    value["status"].setdefault("conditions", []).append({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"})
            self.terminate(name)

    def lose(self, name):
        """Ends a pod with its node: it is killed, and gone with its log."""
        with self.lock:
            child = self.processes.get(name)
            for (plural, namespace, pod) in list(self.objects):
                if plural == "pods" and pod == name:
                    self.objects.pop((plural, namespace, pod))
            shutil.rmtree(f"{self.directory}/pods/{name}/task.log", ignore_errors=True)
        if child is not None:
            # The process within is killed with its namespace's first one.
            subprocess.run(["pkill", "-KILL", "-P", str(child.pid)], check=False)
            child.kill()

    def end(self):
        self.ended.set()
        with self.lock:
            for name in list(self.processes):
                self.terminate(name)
        for _ in range(100):
            if not self.processes:
                return
            time.sleep(0.1)


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def status(code, message):
    reasons = {404: "NotFound", 422: "Invalid", 400: "BadRequest", 503: "ServiceUnavailable"}
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": reasons.get(code, ""), "code": code}


def plain(value):
    """Without what only the controller knows."""
    return {key: part for key, part in value.items() if not key.startswith("_")}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, code, value):
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "text/plain" if isinstance(value, bytes) else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def handle_one(self):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else b""
        cluster = self.server.cluster
        cluster.requests.append((self.command, url.path, query))
        if cluster.failures.get(self.command, 0) > 0:
            cluster.failures[self.command] -= 1
            return self.answer(503, status(503, "the server is busy"))
        fixed = discovery(url.path)
        if fixed is not None:
            return self.answer(200, fixed)
        found = re.fullmatch(r"/(?:api/v1|apis/[^/]+/v1)/namespaces/([^/]+)/([a-z]+)(?:/([^/]+))?(/log)?", url.path)
        if not found or found[2] not in KINDS:
            return self.answer(404, status(404, f"unknown path {url.path}"))
        namespace, plural, name, log = found.groups()
        if log:
            return self.log(namespace, name, query)
        if self.command == "GET" and name is None:
            return self.list(namespace, plural, query)
        if self.command == "GET":
            with cluster.lock:
                value = cluster.objects.get((plural, namespace, name))
                value = plain(copy.deepcopy(value)) if value else None
            return self.answer(200, value) if value else self.answer(404, status(404, f'{plural} "{name}" not found'))
        if self.command == "PATCH":
            kind = self.headers.get("Content-Type", "")
            if "apply-patch" not in kind and "merge-patch" not in kind:
                return self.answer(415, status(400, f"unsupported patch {kind}"))
            if "apply-patch" in kind and not query.get("fieldManager"):
                return self.answer(400, status(400, "fieldManager is required for apply"))
            code, value = cluster.put(plural, namespace, name, json.loads(body))
            return self.answer(code, plain(value))
        if self.command == "POST":
            value = json.loads(body)
            code, value = cluster.put(plural, namespace, value["metadata"]["name"], value)
            return self.answer(code, plain(value))
        if self.command == "DELETE":
            code, value = cluster.delete(plural, namespace, name)
            return self.answer(code, plain(value))
        return self.answer(405, status(400, "unsupported method"))

    do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = handle_one

    def list(self, namespace, plural, query):
        cluster = self.server.cluster
        group, kind = KINDS[plural]
        with cluster.lock:
            items = [plain(copy.deepcopy(value)) for (other, place, _), value in cluster.objects.items()
                     if other == plural and place == namespace and matches(value["metadata"].get("labels", {}), query.get("labelSelector"))]
        selector = query.get("fieldSelector")
        if selector:
            phase = selector.split("=")[-1]
            items = [item for item in items if item["status"]["phase"] == phase]
        version = f"{group}/v1" if group else "v1"
        return self.answer(200, {"kind": f"{kind}List", "apiVersion": version, "metadata": {"resourceVersion": "1"}, "items": items})

    def log(self, namespace, name, query):
        cluster = self.server.cluster
        path = f"{cluster.directory}/pods/{name}/{query.get('container', 'task')}.log"
        with cluster.lock:
            exists = ("pods", namespace, name) in cluster.objects
        if not exists or not os.path.exists(path):
            return self.answer(400, status(400, f"container of pod {name} is waiting to start"))
        with open(path, "rb") as file:
            return self.answer(200, file.read())


def discovery(path):
    """What clients ask first."""
    groups = {"batch": ["jobs"], "networking.k8s.io": ["networkpolicies"]}
    resource = lambda plural: {"name": plural, "singularName": plural[:-1], "namespaced": True, "kind": KINDS[plural][1],
                               "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"]}
    if path == "/version":
        return {"major": "1", "minor": "37", "gitVersion": "v1.37.0"}
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/api/v1":
        core = [plural for plural, (group, _) in KINDS.items() if not group]
        return {"kind": "APIResourceList", "groupVersion": "v1", "resources": [resource(plural) for plural in core]}
    if path == "/apis":
        version = lambda group: {"groupVersion": f"{group}/v1", "version": "v1"}
        return {"kind": "APIGroupList", "apiVersion": "v1",
                "groups": [{"name": group, "versions": [version(group)], "preferredVersion": version(group)} for group in groups]}
    for group, plurals in groups.items():
        if path == f"/apis/{group}/v1":
            return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{group}/v1", "resources": [resource(plural) for plural in plurals]}
    roots = {"api/v1": ("", [p for p, (g, _) in KINDS.items() if not g])} | {f"apis/{g}/v1": (g, p) for g, p in groups.items()}
    if path == "/openapi/v3":
        return {"paths": {root: {"serverRelativeURL": f"/openapi/v3/{root}"} for root in roots}}
    for root, (group, plurals) in roots.items():
        if path == f"/openapi/v3/{root}":
            # It says that the server checks fields itself.
            patch = lambda plural: {"patch": {"x-kubernetes-group-version-kind": {"group": group, "version": "v1", "kind": KINDS[plural][1]},
                                              "parameters": [{"name": "fieldValidation", "in": "query"}], "responses": {}}}
            return {"openapi": "3.0.0", "info": {"title": "test", "version": "1"}, "components": {"schemas": {}},
                    "paths": {f"/{root}/namespaces/{{namespace}}/{plural}/{{name}}": patch(plural) for plural in plurals}}
    return None


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def serve(cluster):
    """Starts a server on this machine; its address."""
    server = Server(("127.0.0.1", 0), Handler)
    server.cluster = cluster
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_address[1]}"
