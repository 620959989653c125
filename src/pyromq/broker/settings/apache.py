"""Property names of Apache's brokers (4.9.8, 5.3.3) that mean nothing here: thread pools, Netty buffers, other engines.

A file written for Apache's broker loads as it is; these keys are accepted and reported as having no effect.
"""

from enum import StrEnum

from pyromq.settings.declaration import Settings, settings
from pyromq.settings.option import option

_ONLY_BEFORE_5 = frozenset(
    {
        "commercialBigCount", "commercialEnable", "commercialTimerCount", "commercialTransCount",
        "isEnableBatchPush", "maxDelayTime",
    }
)  # fmt: skip

_PATHS_BELOW_THE_ROOT = frozenset(
    {
        "abortFile", "mapedFileSizeConsumeQueueExt", "storeCheckpoint", "storePathConsumeQueue",
        "storePathConsumerQueue", "storePathIndex",
    }
)  # fmt: skip
"""Which guides for 3.x and 4.x still have; no broker since has listened to them."""

OLD_NAMES = {
    "haSlaveFallbehindMax": "haMaxGapNotInSync",
    "mapedFileSizeCommitLog": "mappedFileSizeCommitLog",
    "mapedFileSizeConsumeQueue": "mappedFileSizeConsumeQueue",
}
"""Names in brokers of 3.x and 4.x, and what they are called since."""

WITHOUT_EFFECT = _ONLY_BEFORE_5 | _PATHS_BELOW_THE_ROOT | frozenset(
    {
        "accessMessageInMemoryHotRatio", "accountStatsEnable", "accountStatsPrintZeroValues",
        "ackMessageThreadPoolNums", "ackThreadPoolQueueCapacity", "aclCacheExpiredSecond", "aclCacheMaxNum",
        "aclCacheRefreshSecond", "adminBrokerThreadPoolNums", "adminBrokerThreadPoolQueueCapacity",
        "appendAckAsync", "appendCkAsync", "asyncLearner", "asyncSendEnable",
        "authenticationMetadataProvider", "authenticationProvider", "authenticationStrategy",
        "authenticationWhitelist", "authorizationMetadataProvider", "authorizationProvider",
        "authorizationStrategy", "authorizationWhitelist", "autoDeleteUnusedStats", "autoMessageVersionOnTopicLen",
        "batchDispatchRequestThreadPoolNums", "bitMapLengthConsumeQueueExt",
        "bottomMostCompressionTypeForConsumeQueueStore", "broadcastOffsetExpireMaxSecond",
        "broadcastOffsetExpireSecond", "brokerConfigPath", "brokerElectionPriority", "brokerFastFailureEnable",
        "cgColdReadThreshold",
        "channelNotActiveInterval", "checkSyncStateSetPeriod", "cleanOfflineBrokerInterval",
        "cleanRocksDBDirtyCQIntervalMin", "cleanSwapedMapInterval", "clearRetryTopicWhenDeleteTopic",
        "clientAsyncSemaphoreValue", "clientCallbackExecutorThreads", "clientChannelMaxIdleTimeSeconds",
        "clientCloseSocketIfTimeout", "clientManagerThreadPoolQueueCapacity", "clientManageThreadPoolNums",
        "clientOnewaySemaphoreValue", "clientPooledByteBufAllocatorEnable", "clientSocketRcvBufSize",
        "clientSocketSndBufSize", "clientWorkerThreads", "clusterName", "coldCtrStrategyEnable",
        "coldDataFlowControlEnable", "coldDataScanEnable", "commercialBaseCount", "commercialSizePerMsg",
        "commitCommitLogLeastPages", "commitCommitLogThoroughInterval", "commitIntervalCommitLog",
        "commitLogForceSwapMapInterval", "commitLogSwapMapInterval", "commitLogSwapMapReserveFileNum",
        "compactionCqMappedFileSize", "compactionMappedFileSize", "compactionScheduleInternal",
        "compactionThreadNum", "compatibleWithOldNameSrv", "compressedRegister", "configBlackList",
        "configManagerVersion", "configName", "connectTimeoutMillis", "consumerManagerThreadPoolQueueCapacity",
        "consumerManageThreadPoolNums", "controllerAddr", "controllerHeartBeatTimeoutMills",
        "correctLogicMinOffsetForceInterval", "correctLogicMinOffsetSleepInterval", "dataReadAheadEnable",
        "debugLockEnable", "deleteCommitLogFilesInterval",
        "deleteConsumeQueueFilesInterval", "destroyMapedFileIntervalForcibly", "disableCallbackExecutor",
        "disableNettyWorkerGroup", "disappearTimeAfterStart", "diskFallRecorded", "dispatchCqCacheNum",
        "dispatchCqThreads", "dispatchFromSenderThread", "dLegerGroup", "dLegerPeers", "dLegerSelfId",
        "duplicationEnable", "enableAsyncReput", "enableBatchPush",
        "enableBroadcastOffsetStore", "enableBuildConsumeQueueConcurrently", "enableCalcFilterBitMap",
        "enableCleanExpiredOffset", "enableCompaction", "enabledAppendPropCRC", "enableDetailStat",
        "enableFastChannelEventProcess", "enableLmq", "enableLmqStats", "enableMultiDispatch",
        "enableNetWorkFlowControl", "enableNotifyAfterPopOrderLockRelease", "enableNotifyBeforePopCalculateLag",
        "enablePopBatchAck", "enablePopLog", "enablePopMessageThreshold",
        "enableReconnectForGoAway", "enableRegisterProducer",
        "enableRocksDBLog", "enableScheduleAsyncDeliver", "enableScheduleMessageStats", "enableSingleTopicRegister",
        "enableSkipLongAwaitingAck", "enableSplitRegistration",
        "endTransactionPoolQueueCapacity", "endTransactionThreadPoolNums", "estimateAccumulation",
        "expectConsumerNumUseFilter", "fastFailIfNoBufferInStorePool", "fetchControllerAddrByDnsLookup",
        "fetchNamesrvAddrByAddressServer", "fetchNameSrvAddrByDnsLookup", "fetchNamesrvAddrInterval",
        "flushCommitLogTimed", "flushConsumerOffsetHistoryInterval",
        "flushLeastPagesWhenWarmMapedFile", "forceRegister", "forceVerifyPropCRC", "forwardTimeout",
        "globalColdReadThreshold", "haFlowControlEnable",
        "haMaxTimeSlaveNotCatchup",
        "heartbeatThreadPoolNums", "heartbeatThreadPoolQueueCapacity", "highSpeedMode",
        "inBrokerContainer",
        "isBrokerContainer", "isInBrokerContainer", "isolateLogEnable", "isScanAvailableNameSrv",
        "litePullMessageThreadPoolNums", "litePullThreadPoolQueueCapacity", "loadBalancePollNameServerInterval",
        "loadBalanceProcessorThreadPoolNums", "loadBalanceThreadPoolQueueCapacity", "lockInStrictMode",
        "logicalDiskSpaceCleanForciblyThreshold", "logicQueueForceSwapMapInterval", "logicQueueSwapMapInterval",
        "logicQueueSwapMapReserveFileNum", "mappedFileSizeConsumeQueueExt", "mappedFileSwapEnable",
        "mapperFileSizeBatchConsumeQueue", "maxAsyncPutMessageRequests", "maxBatchDeleteFilesNum",
        "maxChecksumRange", "maxConsumeQueueScan", "maxErrorRateOfBloomFilter", "maxHaTransferByteInSecond",
        "maxLmqConsumeQueueNum", "maxOffsetMapSize", "maxReconnectIntervalTimeSeconds",
        "maxRecoveryCommitlogFiles", "maxSlaveResendLength", "maxStatsIdleTimeInMinutes", "maxTopicLength",
        "memTableFlushIntervalMs", "messageStorePlugIn", "metricGrpcExporterIntervalInMills",
        "metricGrpcExporterTimeOutInMills", "metricLoggingExporterIntervalInMills", "metricsExporterType",
        "metricsGrpcExporterHeader", "metricsGrpcExporterTarget", "metricsInDelta", "metricsLabel",
        "metricsPromExporterHost", "metricsPromExporterPort",
        "migrateAuthFromV1Enabled", "osPageCacheBusyTimeOutMills",
        "popConsumerFSServiceInit",
        "popConsumerKVServiceInit", "popConsumerKVServiceLog",
        "popInflightMessageThreshold",
        "popPollingMapSize", "popReviveMaxAttemptTimes",
        "popReviveMaxReturnSizePerRead", "preferredLeaderId", "printChannelGroups", "printChannelGroupsMinNum",
        "processReplyMessageThreadPoolNums", "pullBatchMaxMessageCount", "pullMessageThreadPoolNums",
        "pullThreadPoolQueueCapacity", "putConsumeQueueDataByFileChannel", "putMessageFutureThreadPoolNums",
        "putMessageTimeout", "putMsgIndexHightWater", "putThreadPoolQueueCapacity", "queryMessageThreadPoolNums",
        "queryThreadPoolQueueCapacity", "readOnlyCommitLogStorePaths", "readUnCommitted",
        "realTimeNotifyConsumerChange", "realTimePersistRocksDBConfig", "recheckReputOffsetFromCq",
        "recoverConcurrently", "recoverThreadPoolNums", "redeleteHangedFileInterval", "replicasPerDiskPartition",
        "replyThreadPoolQueueCapacity", "reviveAckWaitMs", "reviveInterval",
        "reviveMaxSlow", "reviveScanTime", "rocketmqHome", "rocksdbCompressionType",
        "rocksdbCQDoubleWriteEnable", "rocksdbFlushWalFrequency", "rocksdbWalFileRollingThreshold",
        "sampleCountThreshold", "sampleSteps", "scanAvailableNameSrv", "scheduleAsyncDeliverMaxPendingLimit",
        "scheduleAsyncDeliverMaxResendNum2Blocked", "searchBcqByCacheEnable", "sendHeartbeatTimeoutMillis",
        "sendMessageThreadPoolNums", "sendThreadPoolQueueCapacity",
        "socksProxyConfig", "spinLockCollisionRetreatOptimalDegree", "splitRegistrationSize",
        "statefulAuthenticationCacheExpiredSecond", "statefulAuthenticationCacheMaxNum",
        "statefulAuthorizationCacheExpiredSecond", "statefulAuthorizationCacheMaxNum", "statRocksDBCQIntervalSec",
        "storePathBrokerIdentity", "storePathDLedgerCommitLog", "storePathEpochFile", "subscriptionExpiredTimeout",
        "syncBrokerMetadataPeriod", "syncControllerMetadataPeriod",
        "syncMasterFlushOffsetWhenStartup", "timerCheckMetricsWhen",
        "timerColdDataCheckIntervalMs", "timerEnableCheckMetrics", "timerEnableDisruptor",
        "timerEnableRetryUntilSuccess", "timerGetMessageThreadNum", "timerInterceptDelayLevel",
        "timerMetricSmallThreshold", "timerProgressLogIntervalMs", "timerPutMessageThreadNum",
        "timerSkipUnknownError", "timerStopDequeue", "timerStopEnqueue", "timerWarmEnable", "topicQueueLockNum",
        "totalReplicas", "transactionMetricFlushInterval",
        "transactionOpBatchInterval", "transactionOpMsgMaxSize", "transferMsgByHeap",
        "transientStorePoolEnable", "transientStorePoolSize", "travelCqFileNumWhenGetMessage",
        "updateNameServerAddrPeriod", "useABSLock", "usePIDColdCtrStrategy", "userCacheExpiredSecond",
        "userCacheMaxNum", "userCacheRefreshSecond", "useReentrantLockWhenPutMessage", "useStaticSubscription",
        "useTLS", "waitTimeMillsInAckQueue", "waitTimeMillsInAdminBrokerQueue", "waitTimeMillsInHeartbeatQueue",
        "waitTimeMillsInLitePullQueue", "waitTimeMillsInPullQueue", "waitTimeMillsInSendQueue",
        "waitTimeMillsInTransactionQueue", "wakeCommitWhenPutMessage", "wakeFlushWhenPutMessage",
        "warmMapedFileEnable",
    }
)  # fmt: skip


class _Only(StrEnum):
    """The single value of a key whose other values ask for something that PyroMQ does not do."""

    DEFAULT = "default"


@settings
class UnsupportedSettings(Settings):
    """Known but refused, unless left at their default.

    Ignoring these would open a door or misread files, so any other value stops the start.
    """

    enable_d_leger_commit_log: bool = option(False, "A Raft commit log.", key="enableDLegerCommitLog", choices=(False,))
    enable_controller_mode: bool = option(False, "Fail-over by a controller.", choices=(False,))
    pop_consumer_kv_service_enable: bool = option(
        False, "State of pop consumers in RocksDB.", key="popConsumerKVServiceEnable", choices=(False,)
    )
    store_type: _Only = option(_Only.DEFAULT, "Another engine for queues.")
    enable_consume_queue_ext: bool = option(False, "Extended queue files.", choices=(False,))
