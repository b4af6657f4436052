"""An S3 server on loopback, for tests: moto, with users whose keys it checks.

Prints its address and the keys of a user who may do everything, then serves until its standard input ends.
"""

import json
import sys

import boto3
from moto import settings
from moto.core.responses import ActionAuthenticatorMixin
from moto.server import ThreadedMotoServer

server = ThreadedMotoServer(ip_address="127.0.0.1", port=int(sys.argv[1]), verbose=False)
server.start()
host, port = server.get_host_and_port()
endpoint = f"http://{host}:{port}"
keys = {"region_name": "us-east-1", "aws_access_key_id": "first", "aws_secret_access_key": "first"}
iam = boto3.client("iam", endpoint_url=endpoint, **keys)
iam.create_user(UserName="tester")
policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
iam.put_user_policy(UserName="tester", PolicyName="all", PolicyDocument=json.dumps(policy))
key = iam.create_access_key(UserName="tester")["AccessKey"]
s3 = boto3.client("s3", endpoint_url=endpoint, **keys)
s3.create_bucket(Bucket="tests")
# From here on, keys and signatures are checked.
settings.INITIAL_NO_AUTH_ACTION_COUNT = 0
ActionAuthenticatorMixin.request_count = 0
print(endpoint, key["AccessKeyId"], key["SecretAccessKey"], flush=True)
sys.stdin.read()
server.stop()
