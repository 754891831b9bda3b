"""hub.predict_texts gives what tupe-predict writes."""
