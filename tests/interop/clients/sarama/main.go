// A member of a group that uses sarama; its lines are those of tests/live/member.py.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

const (
	again    = 200 * time.Millisecond
	patience = 10 * time.Second
)

type member struct {
	options map[string]string
	client  sarama.Client
	admin   sarama.ClusterAdmin
	mutex   sync.Mutex
	session sarama.ConsumerGroupSession
	// Where it reads on, for each partition whose claim has begun.
	begun map[int32]int64
}

func main() {
	m := &member{options: map[string]string{}}
	for _, word := range os.Args[1:] {
		name, value, _ := strings.Cut(word, "=")
		m.options[name] = value
	}
	sarama.Logger = log.New(os.Stderr, "", log.LstdFlags)
	if err := m.run(); err != nil {
		say("fatal", err.Error())
		os.Exit(1)
	}
}

func (m *member) run() error {
	addresses := []string{m.options["bootstrap"]}
	client, err := sarama.NewClient(addresses, m.configuration())
	if err != nil {
		return err
	}
	m.client = client
	if m.admin, err = sarama.NewClusterAdminFromClient(client); err != nil {
		return err
	}
	group, err := sarama.NewConsumerGroupFromClient(m.options["group"], client)
	if err != nil {
		return err
	}
	go func() {
		for err := range group.Errors() {
			say("error", err.Error())
		}
	}()
	within, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for within.Err() == nil {
			if err := group.Consume(within, []string{m.options["topic"]}, m); err != nil {
				say("error", err.Error())
				time.Sleep(again)
			}
		}
	}()
	scanner := bufio.NewScanner(os.Stdin)
	for scanner.Scan() {
		words := strings.Fields(scanner.Text())
		if words[0] == "close" {
			break
		}
		if err := m.obey(words[0], words[1:]); err != nil {
			say("failed", words[0], err.Error())
		}
	}
	stop()
	<-ended
	err = group.Close()
	say("done close")
	return err
}

func (m *member) configuration() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.ClientID = m.options["client"]
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Group.ResetInvalidOffsets = true
	config.Consumer.Group.Session.Timeout = m.milliseconds("session_ms")
	config.Consumer.Group.Heartbeat.Interval = m.milliseconds("heartbeat_ms")
	config.Consumer.Group.Rebalance.Timeout = m.milliseconds("rebalance_ms")
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{
		sarama.NewBalanceStrategyRange(),
	}
	return config
}

func (m *member) milliseconds(name string) time.Duration {
	number, err := strconv.Atoi(m.options[name])
	if err != nil {
		panic(err)
	}
	return time.Duration(number) * time.Millisecond
}

// Setup is called when it has its partitions.
func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.mutex.Lock()
	m.session, m.begun = session, map[int32]int64{}
	m.mutex.Unlock()
	say("assigned", m.list(session))
	return nil
}

// Cleanup is called when it has let go of them.
func (m *member) Cleanup(session sarama.ConsumerGroupSession) error {
	m.mutex.Lock()
	m.session = nil
	m.mutex.Unlock()
	say("revoked", m.list(session))
	return nil
}

// ConsumeClaim is called once for each of its partitions.
func (m *member) ConsumeClaim(
	session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim,
) error {
	m.mutex.Lock()
	m.begun[claim.Partition()] = claim.InitialOffset()
	m.mutex.Unlock()
	for {
		select {
		case <-session.Context().Done():
			return nil
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			say("error", fmt.Sprintf("a record at offset %d", message.Offset))
		}
	}
}

func (m *member) list(session sarama.ConsumerGroupSession) string {
	partitions := session.Claims()[m.options["topic"]]
	sort.Slice(partitions, func(a, b int) bool { return partitions[a] < partitions[b] })
	words := make([]string, len(partitions))
	for at, partition := range partitions {
		words[at] = strconv.Itoa(int(partition))
	}
	return strings.Join(words, ",")
}

func (m *member) obey(command string, words []string) error {
	switch command {
	case "commit":
		return m.commit(words)
	case "committed":
		offsets, err := m.committed()
		return tell(command, offsets, err)
	case "positions":
		offsets, err := m.positions()
		return tell(command, offsets, err)
	}
	return fmt.Errorf("no such command")
}

func (m *member) current() (sarama.ConsumerGroupSession, []int32, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.session == nil {
		return nil, nil, fmt.Errorf("it is in no generation")
	}
	return m.session, m.session.Claims()[m.options["topic"]], nil
}

// commit marks offsets as done and commits what is marked; sarama tells no errors, so it is looked
// at what is committed then.
func (m *member) commit(words []string) error {
	session, _, err := m.current()
	if err != nil {
		return err
	}
	wanted := map[int32]int64{}
	for _, word := range words {
		partition, offset, _ := strings.Cut(word, "=")
		number, err := strconv.ParseInt(partition, 10, 32)
		if err != nil {
			return err
		}
		at, err := strconv.ParseInt(offset, 10, 64)
		if err != nil {
			return err
		}
		wanted[int32(number)] = at
		session.MarkOffset(m.options["topic"], int32(number), at, "")
	}
	session.Commit()
	found, err := m.committed()
	if err != nil {
		return err
	}
	for partition, offset := range wanted {
		if found[partition] != offset {
			return fmt.Errorf("partition %d is at %d", partition, found[partition])
		}
	}
	say("done commit")
	return nil
}

func (m *member) committed() (map[int32]int64, error) {
	_, owned, err := m.current()
	if err != nil {
		return nil, err
	}
	topic := m.options["topic"]
	answer, err := m.admin.ListConsumerGroupOffsets(
		m.options["group"], map[string][]int32{topic: owned},
	)
	if err != nil {
		return nil, err
	}
	offsets := map[int32]int64{}
	for _, partition := range owned {
		block := answer.GetBlock(topic, partition)
		if block == nil || block.Err != sarama.ErrNoError {
			return nil, fmt.Errorf("no answer for partition %d", partition)
		}
		if block.Offset >= 0 {
			offsets[partition] = block.Offset
		}
	}
	return offsets, nil
}

// positions waits until all claims have begun.
func (m *member) positions() (map[int32]int64, error) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(again) {
		_, owned, err := m.current()
		if err != nil {
			return nil, err
		}
		m.mutex.Lock()
		offsets := map[int32]int64{}
		for partition, offset := range m.begun {
			offsets[partition] = offset
		}
		m.mutex.Unlock()
		if len(offsets) == len(owned) {
			return offsets, nil
		}
	}
	return nil, fmt.Errorf("not all claims have begun")
}

func tell(command string, offsets map[int32]int64, err error) error {
	if err != nil {
		return err
	}
	words := []string{"done", command}
	for partition, offset := range offsets {
		words = append(words, fmt.Sprintf("%d=%d", partition, offset))
	}
	say(words...)
	return nil
}

var saying sync.Mutex

func say(words ...string) {
	saying.Lock()
	defer saying.Unlock()
	fmt.Println(strings.Join(words, " "))
}
