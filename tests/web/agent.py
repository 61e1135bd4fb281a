#!/usr/bin/env python3
"""A provider of the kind custom with the protocol jsonl, scripted by the words of its newest message."""
import json
import os
import subprocess
import sys
import time

ANSWER = """I looked at it. **Two things** stand out:

| file | lines |
|---|---|
| greeting.txt | 2 |

Nothing else does."""


def say(kind, **fields):
    print(json.dumps({"type": kind, **fields}), flush=True)


def hand(*words):
    subprocess.run([os.environ["AYNIG_BIN"], "orch", *words], check=True, stdout=subprocess.DEVNULL)


def tool(number, name, args, output, ok=True):
    call = {"id": f"t{number}", "name": name, "args": args}
    say("tool.proposed", tool=call)
    say("tool.started", toolId=call["id"])
    say("tool.completed", toolId=call["id"], result={"ok": ok, "output": output})


def stream(text, pause=0):
    for start in range(0, len(text), 24):
        say("message.assistant.delta", content=text[start:start + 24])
        time.sleep(pause)
    say("message.assistant.final", content=text)


prompt = json.loads(sys.stdin.readline())
text = prompt["prompt"]
say("session", sessionId=f"session-{os.getpid()}")
say("message.assistant.thinking.delta", content="The message asks for ")
say("message.assistant.thinking.delta", content="something small.")
say("message.assistant.thinking.final", content="The message asks for something small.")

if "fail" in text.split():
    say("node.log", message="\x1b[31merror\x1b[0m: the \x1b[1mbuild\x1b[0m failed")
    print("a line on stderr", file=sys.stderr)
    sys.exit(3)
elif "ring" in text:
    if "the agent sam" in text:
        hand("handoff", "--to", "tom", "--message", "ring")
    else:
        hand("handoff", "--to", "sam", "--message", "ring")
    stream("I passed it on.")
elif "spawn: dora" in text:
    hand("spawn", "dora", "--role", "implementer", "--provider", "scripted", "--permissions", "skip",
         "--message", "Build the parser.")
    stream("I made **dora**, who builds the parser.")
elif "handoff: rex" in text:
    with open("greeting.txt", "a") as file:
        file.write("Good morning.\nGood evening.\n")
    tool(1, "Edit", {"file_path": "greeting.txt", "old_string": "", "new_string": "Good morning.\nGood evening.\n"},
         "The file was changed.")
    hand("handoff", "--to", "rex", "--message", "Please look at greeting.txt.",
         "--structured", '{"files": ["greeting.txt"]}')
    stream("I wrote `greeting.txt` and handed it to rex.")
elif "slowly" in text:
    stream(ANSWER, pause=0.3)
elif "say: " in text:
    stream(text.rsplit("say: ", 1)[1].splitlines()[0])
elif "big: " in text:
    say("message.assistant.final", content="big " + "word " * int(text.rsplit("big: ", 1)[1].split()[0]))
elif "many: " in text:
    # As many items, by turns words and calls of a tool, faster than any agent.
    for count in range(int(text.rsplit("many: ", 1)[1].split()[0]) // 2):
        say("message.assistant.delta", content=f"Message {count} with **some** words and `code`.")
        say("tool.proposed", tool={"id": f"m{count}", "name": "Bash", "args": {"command": f"echo {count}"}})
        if count % 100 == 99:
            time.sleep(0.05)
    say("message.assistant.final", content="That was all.")
elif "words: " in text:
    for _ in range(int(text.rsplit("words: ", 1)[1].split()[0])):
        say("message.assistant.delta", content="more words ")
        time.sleep(0.01)
    say("message.assistant.final", content="more words " * int(text.rsplit("words: ", 1)[1].split()[0]))
elif "hostile: " in text:
    words = text.rsplit("hostile: ", 1)[1].splitlines()[0]
    escapes = "\x1b]0;title\x07\x1b[2J\x1b[31mred\x1b[0m\x1b]8;;javascript:alert(1)\x07link\x1b]8;;\x07 " + words
    tool(1, words, {"command": words, "other": escapes}, words + escapes)
    say("node.log", message=escapes)
    call = {"id": "t2", "name": words, "args": {"command": words}}
    say("tool.proposed", tool=call)
    say("approval.requested", approvalId="a1", tool=call, context=words)
    answer = json.loads(sys.stdin.readline())["resolution"]
    stream(words)
elif "edit: " in text:
    path = text.rsplit("edit: ", 1)[1].split()[0]
    call = {"id": "t1", "name": "Edit", "args": {"file_path": path, "old_string": "one word", "new_string": "one other word"}}
    say("tool.proposed", tool=call)
    say("approval.requested", approvalId="a1", tool=call)
    answer = json.loads(sys.stdin.readline())["resolution"]
    stream(f"The answer was: {answer['status']} {answer.get('reason', '')}")
elif "ask: " in text:
    words = text.rsplit("ask: ", 1)[1].splitlines()[0]
    command = {"write": "./check --all", "delete": "rm -r old", "install": "npm install"}.get(words.split()[0], "git push")
    call = {"id": "t1", "name": "Bash", "args": {"command": command, "description": words}}
    tool(0, "Read", {"file_path": "README.md"}, open("README.md").read())
    say("tool.proposed", tool=call)
    say("approval.requested", approvalId="a1", tool=call, context=f"{words}\n$ {command}")
    answer = json.loads(sys.stdin.readline())["resolution"]
    if answer["status"] == "denied":
        stream(f"I did not do it: {answer.get('reason', '')}")
    else:
        with open("greeting.txt", "a") as file:
            file.write(f"Hello, world: {words}.\n")
        say("tool.started", toolId="t1")
        say("tool.completed", toolId="t1", result={"ok": True, "output": "3 checks, all green"})
        stream(f"## Done\n\n- ran `{command}`\n- wrote *greeting.txt*\n\n```sh\ncat greeting.txt\n```\n")
else:
    with open("notes.md", "a") as file:
        file.write("- read\n")
    tool(1, "Bash", {"command": "ls"}, "README.md\nnotes.md")
    stream("I have read it.")
say("telemetry.usage", usage={"promptTokens": 1200, "completionTokens": 85, "totalTokens": 1285, "costUsd": 0.0125},
    model="model-1")
say("turn.status", status="completed")
