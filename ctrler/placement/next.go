package placement

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"shardkv/internal/shard"
)

// Change is what a Join, Leave or Move would do.
type Change struct {
	Num   uint64 // of the config it would make
	Moves []Transfer
}

// Transfer is one shard that changes hands; From 0 = nobody owned it.
type Transfer struct {
	Shard    shard.ID
	From, To shard.GID
}

// Plan says what a Join, Leave or Move would do, without doing it.
func (s *State) Plan(c Command) (Change, error) {
	to, err := s.next(c)
	if err != nil {
		return Change{}, err
	}
	change := Change{Num: to.Num}
	for i, gid := range to.Owners {
		if from := s.newest.Owners[i]; from != gid {
			change.Moves = append(change.Moves, Transfer{shard.ID(i), from, gid})
		}
	}
	return change, nil
}

// reconfigure applies a Join, Leave or Move and returns the number of the config
// it made, now or when it was first tried.
func (s *State) reconfigure(tx Tx, c Command) (*State, uint64, *Refusal) {
	request := requestOf(c)
	if num, ok := s.requests.find(request); ok {
		return s, num, nil
	}
	to, err := s.next(c)
	if err != nil {
		return nil, 0, err
	}
	next := s.edit()
	switch c := c.(type) {
	case Join:
		for _, a := range c.Assents {
			if to.Groups[a.GID].Epoch == a.Epoch {
				g := next.groups[a.GID]
				g.Reached, g.Joined, g.Left = max(g.Reached, a.Config), true, false
				next.register(tx, a.GID, g)
			}
		}
	case Leave:
		for _, gid := range c.GIDs {
			g := next.groups[gid]
			g.Left = true
			next.register(tx, gid, g)
		}
	}
	next.commit(tx, to, request)
	return next, to.Num, nil
}

// Made returns the number of the config that a request made, if it is still
// remembered.
func (s *State) Made(id RequestID) (num uint64, ok bool) { return s.requests.find(id) }

func requestOf(c Command) RequestID {
	switch c := c.(type) {
	case Join:
		return c.Request
	case Leave:
		return c.Request
	case Move:
		return c.Request
	}
	return RequestID{}
}

// commit makes to the newest config of a state being edited.
func (s *State) commit(tx Tx, to shard.Config, request RequestID) {
	record(tx, s.newest, to, request)
	owes := map[pull]bool{}
	for i, gid := range to.Owners {
		if from := s.newest.Owners[i]; from != 0 && gid != 0 && from != gid {
			owes[pull{gid, from}] = true
		}
	}
	for p := range owes {
		s.owe(tx, p, to.Num)
	}
	s.newest = to
	s.requests = s.requests.with(request, to.Num)
}

// next returns the config that a Join, Leave or Move makes.
func (s *State) next(c Command) (shard.Config, *Refusal) {
	if err := s.founded(); err != nil {
		return shard.Config{}, err
	}
	to := s.newest.Clone()
	to.Num++
	var err *Refusal
	switch c := c.(type) {
	case Join:
		err = s.nextJoin(&to, c)
	case Leave:
		err = s.nextLeave(&to, c)
	case Move:
		err = s.nextMove(&to, c)
	default:
		err = refuse("%s makes no config", c.Kind())
	}
	return to, err
}

// ExpectEmpty as Expect demands config 0; the number 0 itself stands for any.
const ExpectEmpty = math.MaxUint64

func (s *State) expect(num uint64) *Refusal {
	switch num {
	case 0, s.newest.Num:
		return nil
	case ExpectEmpty:
		num = 0
	}
	if num != s.newest.Num {
		return refuse("the newest config is %d, not %d as expected: look at it and try again", s.newest.Num, num)
	}
	return nil
}

func (s *State) nextJoin(to *shard.Config, c Join) *Refusal {
	if err := s.expect(c.Expect); err != nil {
		return err
	}
	joined := 0
	for _, a := range c.Assents {
		_, member := s.newest.Groups[a.GID]
		if c.Auto && (member || !s.groups[a.GID].WantsAutoJoin()) {
			continue
		}
		err := s.checkAssent(a)
		if member {
			err = refuse("group %d is already in config %d", a.GID, s.newest.Num)
		}
		if err != nil && c.Auto {
			continue // the others need not wait for it; the leader asks it again
		}
		if err != nil {
			return err
		}
		to.Groups[a.GID] = shard.Group{Epoch: a.Epoch, Members: slices.Sorted(slices.Values(a.Members))}
		joined++
	}
	if joined == 0 {
		return refuse("no group to join")
	}
	s.place(to)
	return nil
}

// Judge says what is wrong with an assent, nil if nothing is.
func (s *State) Judge(a Assent) error {
	if err := s.checkAssent(a); err != nil {
		return err
	}
	return nil
}

// checkAssent judges what the group's leader said against what is known now: a
// gid whose disks are gone, whole or in part, must not be given shards.
func (s *State) checkAssent(a Assent) *Refusal {
	g, ok := s.groups[a.GID]
	switch {
	case a.GID == 0:
		return refuse("group 0 is the ctrler; group ids start at 1")
	case !ok:
		return refuse("group %d has not formed: start its nodes first", a.GID)
	case a.Epoch != g.Epoch:
		return refuse("group %d answered in epoch %d, but epoch %d is registered: try again", a.GID, a.Epoch, g.Epoch)
	case a.Config < g.Reached:
		return refuse("group %d says its newest config is %d, but it had reached %d: it has lost data", a.GID, a.Config, g.Reached)
	case a.Config > s.newest.Num:
		return refuse("group %d has config %d, newer than the newest, %d: the ctrler has lost history", a.GID, a.Config, s.newest.Num)
	}
	return nil
}

func (s *State) nextLeave(to *shard.Config, c Leave) *Refusal {
	if err := s.expect(c.Expect); err != nil {
		return err
	}
	if len(c.GIDs) == 0 {
		return refuse("no group to leave")
	}
	for _, gid := range c.GIDs {
		if _, ok := s.newest.Groups[gid]; !ok {
			return refuse("group %d is not in config %d%s", gid, s.newest.Num, s.members())
		}
		delete(to.Groups, gid)
	}
	if len(to.Groups) == 0 {
		return refuse("no group would be left to own the shards: join another one first")
	}
	s.place(to)
	return nil
}

func (s *State) nextMove(to *shard.Config, c Move) *Refusal {
	if err := s.expect(c.Expect); err != nil {
		return err
	}
	if c.Shard >= uint64(len(to.Owners)) {
		return refuse("shard %d is out of range: the cluster has shards 0 to %d", c.Shard, len(to.Owners)-1)
	}
	if _, ok := to.Groups[c.GID]; !ok {
		return refuse("group %d is not in config %d%s", c.GID, s.newest.Num, s.members())
	}
	if to.Owners[c.Shard] == c.GID {
		return refuse("shard %d is already on group %d", c.Shard, c.GID)
	}
	to.Owners[c.Shard] = c.GID
	return nil
}

// place gives the shards to the members of to.
func (s *State) place(to *shard.Config) {
	if s.cluster.Placement == RingOf {
		to.Owners = ringOwners(len(to.Owners), to.GIDs())
	} else {
		to.Owners = Rebalance(to.Owners, to.GIDs())
	}
}

// members lists the newest config's groups for a refusal.
func (s *State) members() string {
	gids := slices.Sorted(maps.Keys(s.newest.Groups))
	if len(gids) == 0 {
		return ", which has no groups"
	}
	var names []string
	for _, gid := range gids[:min(len(gids), 8)] {
		names = append(names, strconv.FormatUint(uint64(gid), 10))
	}
	if len(gids) > len(names) {
		names = append(names, "…")
	}
	return ", whose groups are " + strings.Join(names, ", ")
}
