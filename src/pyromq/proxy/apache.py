"""Settings of RocketMQ's own proxy (rmq-proxy.json): what they are called here, and which have no counterpart."""

from typing import Final

OLD_NAMES: Final = {
    "tlsCertPath": "tls.server.certPath",
    "tlsKeyPath": "tls.server.keyPath",
    "tlsKeyPassword": "tls.server.keyPassword",
    "tlsTestModeEnable": "tls.test.mode.enable",
}

WITHOUT_EFFECT: Final = frozenset(
    {
        # a proxy of this kind is always in front of a cluster; the other one is a setting of the broker
        "proxyMode", "brokerConfigPath", "proxyClusterName", "proxyName", "localServeAddr",
        # proxies here keep nothing that they would have to tell each other
        "heartbeatSyncerTopicClusterName", "heartbeatSyncerTopicName", "heartbeatSyncerThreadPoolNums",
        "heartbeatSyncerThreadPoolQueueCapacity", "enableProxyClientAdminCrossProxyQuery",
        "proxyClientAdminPeerRequestTimeoutMillis", "proxyClientAdminPeerGrpcTargets", "transactionDataMaxNum",
        "transactionDataExpireMillis", "transactionDataExpireScanPeriodMillis", "transactionDataMaxWaitClearMillis",
        # routes keep the endpoints that a client used
        "useEndpointPortFromRequest",
        # there is one thread
        "grpcBossLoopNum", "grpcWorkerLoopNum", "enableGrpcEpoll", "grpcThreadPoolNums", "grpcThreadPoolQueueCapacity",
        "grpcProducerThreadPoolNums", "grpcProducerThreadQueueCapacity", "grpcConsumerThreadPoolNums",
        "grpcConsumerThreadQueueCapacity", "grpcRouteThreadPoolNums", "grpcRouteThreadQueueCapacity",
        "grpcClientManagerThreadPoolNums", "grpcClientManagerThreadQueueCapacity", "grpcTransactionThreadPoolNums",
        "grpcTransactionThreadQueueCapacity", "producerProcessorThreadPoolNums",
        "producerProcessorThreadPoolQueueCapacity", "consumerProcessorThreadPoolNums",
        "consumerProcessorThreadPoolQueueCapacity", "topicRouteServiceThreadPoolNums",
        "topicRouteServiceThreadPoolQueueCapacity", "metadataThreadPoolNums", "metadataThreadPoolQueueCapacity",
        "transactionHeartbeatThreadPoolNums", "transactionHeartbeatThreadPoolQueueCapacity",
        "transactionHeartbeatBatchNum", "renewThreadPoolNums", "renewMaxThreadPoolNums", "renewThreadPoolQueueCapacity",
        "returnHandleGroupThreadPoolNums", "rocketmqMQClientNum", "enablePrintJstack", "printJstackInMillis",
        "printThreadPoolStatusInMillis",
        # no remoting clients are served
        "enableRemotingLocalProxyGrpc", "localProxyConnectTimeoutMs", "remotingAccessAddr", "remotingListenPort",
        # other ways to metrics and traces
        "metricCollectorMode", "metricCollectorAddress", "metricsExporterType", "metricsPromExporterPort",
        "metricsPromExporterHost", "metricsLabel", "metricsInDelta", "traceOn", "regionId",
    }
)  # fmt: skip
