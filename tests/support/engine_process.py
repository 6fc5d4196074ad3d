"""The child process of `engine.py`: llama.cpp's HTTP server, until its stdin closes."""

import json
import os
import sys

import xllamacpp


def main() -> None:
    orders = json.loads(sys.stdin.readline())
    parameters = xllamacpp.CommonParams()
    parameters.model.path = orders["path"]
    parameters.model_alias = {orders["name"]}
    parameters.api_keys = [orders["key"]]
    parameters.n_ctx = orders["context"]
    parameters.n_parallel = 1
    parameters.n_gpu_layers = 0
    parameters.cpuparams.n_threads = 1
    server = xllamacpp.Server(parameters)  # on loopback and a free port, unless told otherwise
    print(server.listening_address, flush=True)
    sys.stdin.read()
    os._exit(0)  # its threads may be computing


if __name__ == "__main__":
    main()
