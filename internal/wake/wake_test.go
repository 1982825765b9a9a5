package wake

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestSignal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Signal
		s.Wake() // nobody waits: nothing is remembered
		next, same := s.Next(), s.Next()
		select {
		case <-next:
			t.Fatal("woken by a wake before it waited")
		default:
		}
		s.Wake()
		<-next
		<-same
		start := time.Now()
		s.Wait(t.Context(), time.Minute)
		if took := time.Since(start); took != time.Minute {
			t.Errorf("a wait without a wake took %v", took)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		s.Wait(ended, time.Hour)
		go func() {
			<-time.After(time.Second)
			s.Wake()
		}()
		s.Wait(t.Context(), time.Hour)
		if took := time.Since(start); took != time.Minute+time.Second {
			t.Errorf("all waits took %v", took)
		}
	})
}
