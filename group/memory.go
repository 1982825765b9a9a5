package group

// QueueMemory is the bytes that the client commands of one group may take here:
// the batches that wait for an entry, and the entries on their way, each as
// commands and encoded.
const QueueMemory = queueBytes + 2*proposers*entryBytes
