"""Lets the official Python client of the Agent2Agent protocol drive `parallax serve`.

usage: official_a2a.py PROGRAM MODEL_SERVER
"""
import asyncio
import os
import subprocess
import sys

import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    TaskState,
)
from google.protobuf import json_format, struct_pb2
from scripted_model import answer, call, scripted_model

PROGRAM, SERVER = sys.argv[1:3]
REPLIES = [
    answer({"text": "Hello, client"}),
    answer(call("run_shell_command", command="touch made")),
    answer({"text": "Made it"}),
    answer(call("run_shell_command", command="touch other")),
]


def message(*parts, task=None):
    return SendMessageRequest(
        message=Message(
            message_id="m", role=Role.ROLE_USER, parts=list(parts), task_id=task or ""
        )
    )


async def last(client, request):
    """The task that the last event tells of, and the text of its status."""
    task, status = None, None
    async for event in client.send_message(request):
        kind = event.WhichOneof("payload")
        if kind == "task":
            task, status = event.task.id, event.task.status
        elif kind == "status_update":
            task, status = event.status_update.task_id, event.status_update.status
    return task, status


async def drive(url, token, project, binding):
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60) as http:
        config = ClientConfig(httpx_client=http, supported_protocol_bindings=[binding])
        client = await ClientFactory(config).create_from_url(url)
        if binding == "JSONRPC":
            task, status = await last(client, message(Part(text="hello")))
            assert status.state == TaskState.TASK_STATE_COMPLETED, status
            assert status.message.parts[0].text == "Hello, client", status
            task, status = await last(client, message(Part(text="make it")))
            assert status.state == TaskState.TASK_STATE_INPUT_REQUIRED, status
            data = struct_pb2.Value()
            decision = {"outcome": {"outcome": "selected", "optionId": "proceed_once"}}
            json_format.ParseDict(decision, data)
            same, status = await last(client, message(Part(data=data), task=task))
            assert same == task and status.state == TaskState.TASK_STATE_COMPLETED, status
            assert os.path.exists(project + "/made")
            got = await client.get_task(GetTaskRequest(id=task))
            assert got.status.message.parts[0].text == "Made it", got
            listed = await client.list_tasks(ListTasksRequest())
            assert any(it.id == task for it in listed.tasks), listed
        else:
            task, status = await last(client, message(Part(text="another")))
            assert status.state == TaskState.TASK_STATE_INPUT_REQUIRED, status
            cancelled = await client.cancel_task(CancelTaskRequest(id=task))
            assert cancelled.status.state == TaskState.TASK_STATE_CANCELED, cancelled
        await client.close()


def main():
    with scripted_model(SERVER, REPLIES) as (project, env):
        env["PARALLAX_SERVE_TOKEN"] = token = "a-token-of-the-test"
        server = subprocess.Popen(
            [os.path.abspath(PROGRAM), "serve"], cwd=project, env=env, stdout=subprocess.PIPE,
            text=True,
        )
        try:
            url = server.stdout.readline().split()[-1]
            for binding in ["JSONRPC", "HTTP+JSON"]:
                asyncio.run(drive(url, token, project, binding))
        finally:
            server.terminate()
            assert server.wait(20) == 0
    print("a2a client: ok")


main()
