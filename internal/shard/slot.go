package shard

import "bytes"

// Slots is the number of hash slots (Redis Cluster specification).
const Slots = 16384

// MaxShards is the largest number of shards of a cluster: one slot each.
const MaxShards = Slots

// ID is a shard number, 0 … shards-1.
type ID uint16

// GID names a group, 1 … 2^32-1. GID 0 means "no owner".
type GID uint32

// Slot returns the hash slot of a key, 0 … 16383: CRC16/XMODEM of the key, or
// of its first non-empty {tag}, modulo 16384 (Redis Cluster specification).
func Slot(key []byte) uint16 {
	if open := bytes.IndexByte(key, '{'); open >= 0 {
		if n := bytes.IndexByte(key[open+1:], '}'); n > 0 {
			key = key[open+1 : open+1+n]
		}
	}
	return crc16(key) % Slots
}

// Of returns the shard of a key in a cluster of that many shards.
func Of(key []byte, shards int) ID { return OfSlot(Slot(key), shards) }

// OfSlot returns the shard that a slot belongs to: slot × shards / 16384.
func OfSlot(slot uint16, shards int) ID { return ID(int(slot) * shards / Slots) }

// SlotRange returns the first and the last slot of a shard, both included.
func SlotRange(id ID, shards int) (first, last uint16) {
	// The smallest slot with slot*shards/Slots == id is ceil(id*Slots/shards).
	lo := (int(id)*Slots + shards - 1) / shards
	hi := ((int(id)+1)*Slots + shards - 1) / shards
	return uint16(lo), uint16(hi - 1)
}

// crc16 is CRC-16/XMODEM: polynomial 0x1021, initial value 0, not reflected.
func crc16(p []byte) uint16 {
	var crc uint16
	for _, c := range p {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^c]
	}
	return crc
}

var crcTable = func() (t [256]uint16) {
	for i := range t {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		t[i] = crc
	}
	return t
}()
