"""Commands of mqadmin that do not apply to PyroMQ, each with the reason, so that nobody has to guess."""

CONTAINER = "PyroMQ has no broker containers: run one process for each broker"
CONTROLLER = "PyroMQ has no controller: masters are chosen by configuration"
ROCKSDB = "PyroMQ keeps no RocksDB: its settings and queues are the plain files of Apache's broker"
STATIC = "PyroMQ has no static topics"

REASONS = {
    "addBroker": CONTAINER,
    "removeBroker": CONTAINER,
    "getSyncStateSet": CONTROLLER,
    "getControllerMetaData": CONTROLLER,
    "getControllerConfig": CONTROLLER,
    "updateControllerConfig": CONTROLLER,
    "electMaster": CONTROLLER,
    "cleanBrokerMetadata": CONTROLLER,
    "exportMetadataInRocksDB": ROCKSDB,
    "rocksDBConfigToJson": ROCKSDB,
    "checkRocksdbCqWriteProgress": ROCKSDB,
    "exportPopRecord": ROCKSDB,
    "dumpCompactionLog": "PyroMQ has no compacted topics",
    "copyUser": "PyroMQ gives out no secrets: create the user on the other broker with the secret you know",
    "updateStaticTopic": STATIC,
    "remappingStaticTopic": STATIC,
}
