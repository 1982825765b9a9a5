package store

// View is the rows at one index. For one goroutine at a time. The slices it
// returns stay valid and must not be changed.
type View struct {
	reading
	hold   bool
	err    error
	closed bool
}

// View pins the rows at the last committed index. It never fails: a view of a
// damaged or closed store finds nothing and Err says why. Close it soon: what it
// pins takes disk space.
func (s *Store) View() *View { return s.newest(false) }

// Hold is a View that keeps every later index readable by ViewAt too, until it
// is closed or keptLayers spills have passed: memory is bounded.
func (s *Store) Hold() *View { return s.newest(true) }

func (s *Store) newest(hold bool) *View {
	v, err := s.view(point{newest: true, hold: hold})
	if err != nil {
		return &View{err: err, closed: true}
	}
	return v
}

// ViewAt pins the rows at an index, which may be older than the last committed
// one, but not older than both the last checkpoint and the oldest open Hold. It
// costs what View costs. A caller whose index was overtaken takes the newer one
// that it will have published by now.
func (s *Store) ViewAt(index uint64) (*View, error) { return s.view(point{index: index}) }

// point says what a view is to show.
type point struct {
	index  uint64
	newest bool // the last committed index instead
	hold   bool
}

func (s *Store) view(at point) (*View, error) {
	for {
		db := s.db.Load()
		if err := db.fault(); err != nil {
			return nil, err
		}
		index, layers, err := db.pin(at)
		if err == nil {
			return &View{reading: reading{db: db, index: index, layers: layers}, hold: at.hold}, nil
		}
		if s.db.Load() == db { // else Install came between
			return nil, err
		}
	}
}

// Index returns the pinned index.
func (v *View) Index() uint64 { return v.index }

// Get returns the value of a row. After a fault it finds nothing, and Err says
// why: check Err before believing an absence.
func (v *View) Get(row []byte) ([]byte, bool) {
	if v.unusable() {
		return nil, false
	}
	value, ok, err := v.get(row)
	if err != nil {
		v.err = err
	}
	return value, ok
}

// Scan calls fn for every row with that prefix, ascending, beginning with the
// row from (included; nil = the first), until fn returns false. After a fault it
// ends early, and Err says why.
func (v *View) Scan(prefix, from []byte, fn func(row, value []byte) bool) {
	if v.unusable() {
		return
	}
	if err := v.scan(prefix, from, false, func(row, value []byte, _ int64) bool { return fn(row, value) }); err != nil {
		v.err = err
	}
}

func (v *View) unusable() bool {
	if v.err == nil && v.closed {
		v.err = ErrClosed
	}
	return v.err != nil
}

// Err returns the first fault.
func (v *View) Err() error { return v.err }

// Close lets go of the pin. It is idempotent.
func (v *View) Close() {
	if !v.closed {
		v.closed = true
		v.end()
		v.db.unpin(v.index, v.hold)
	}
}
