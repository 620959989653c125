"""The commands of mqadmin about users and rules, which need servers that check them.

As in `admin_commands`, they run in this order against Apache's broker and ours.
"""

ACCESS_COMMANDS = (
    "createUser -b {broker} -u dave -p dave-secret-1 -t Normal",
    "createUser -c DefaultCluster -u erin -p erin-secret-1",
    "createUser -b {broker} -u dave -p third-secret-1", "getUser -b {broker} -u dave", "listUser -b {broker}",
    "listUser -b {broker} -f da", "updateUser -b {broker} -u dave -s disable", "getUser -b {broker} -u dave",
    "updateUser -b {broker} -u dave -p other-secret-1", "updateUser -b {broker} -u dave -t Super",
    "getUser -c DefaultCluster -u dave",
    "getUser -b {broker} -u nobody",
    "createAcl -b {broker} -s User:erin -r Topic:orders*,Group:billing -a Pub,Sub -i 127.0.0.1,10.0.0.0/8 -d Allow",
    "getAcl -b {broker} -s User:erin", "listAcl -b {broker}", "listAcl -b {broker} -s User:er -r Topic:or",
    "updateAcl -b {broker} -s User:erin -r Topic:orders* -a Sub -d Deny", "getAcl -b {broker} -s User:erin",
    "deleteAcl -b {broker} -s User:erin -r Topic:orders*", "getAcl -c DefaultCluster -s User:erin",
    "createAcl -b {broker} -s User:nobody -r Topic:* -a Pub -d Allow",
    "copyUser -f {broker} -t {broker} -u erin", "copyAcl -f {broker} -t {broker} -s User:erin",
    "deleteAcl -b {broker} -s User:erin", "getAcl -b {broker} -s User:erin", "deleteUser -b {broker} -u erin",
    "deleteUser -b {broker} -u dave", "listUser -b {broker}",
)  # fmt: skip
